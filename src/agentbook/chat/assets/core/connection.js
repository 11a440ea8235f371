/*
Sends messages to the kernel and makes sure that none from it is missed, for all
modules. Messages sent while a module is loading are lost, so each module first says
which version of the state it shows. `chat/widgets/page_view.py` documents the messages.
*/

const RESTARTED = "The kernel restarted. Run the cells above and this one again to continue.";
const ENDED = "The kernel was shut down. Run the cells above and this one again to continue.";
const REPEAT_MS = 4000; // after which a question to the kernel is repeated
const REPEATS = 8;
const EXPECT_MS = 1500; // without a message while one is expected, after which the kernel is asked for one
const ANSWER_MS = 3000; // until it has to answer that

/*
Connect a model, and keep the version of `state` in step with the kernel's. `replace`
takes a snapshot, and `apply` the next of the numbered messages; each returns false if it
does not fit. `answered` first gets every message but a snapshot. `ended` is called when
the kernel is gone, and `silent` when it stops answering, and when it is heard again.
`expects` returns whether the kernel has something under way.
*/
export function openConnection(model, state, handlers) {
  const { replace, apply, answered = () => {}, ended, silent = () => {}, expects = () => false } = handlers;
  const page = Math.random().toString(36).slice(2);
  let [gone, count, heard, asking, timer] = ["", 0, false, false, 0];
  let [isSilent, pause] = [false, 0];
  let newest = -1; // the version of the newest message that could not be used

  function send(message) {
    if (gone) return false;
    try {
      model.send(message);
      return true;
    } catch {
      return false; // the kernel is gone; the page is told in another way
    }
  }

  /* Send an action of a person, who then waits for the answer. */
  function act(message) {
    const sent = send(message);
    expect();
    return sent;
  }

  /* Notice if the kernel does not answer. */
  function expect() {
    pause ||= setTimeout(() => {
      send({ do: "ping" });
      pause = setTimeout(() => {
        note(true);
        expect();
      }, ANSWER_MS);
    }, EXPECT_MS);
  }
  function note(isNow) {
    clearTimeout(pause);
    pause = 0;
    if (isSilent !== isNow && !gone) silent((isSilent = isNow));
  }

  /* Ask until there is an answer; the kernel then sends what the page has missed. */
  function ask() {
    clearTimeout(timer);
    if (gone || count >= REPEATS) return;
    count += 1;
    send({ do: "hello", page, count, version: state.version });
    timer = setTimeout(() => {
      if (!heard || asking) ask();
    }, REPEAT_MS);
  }

  function miss() {
    if (asking && count < REPEATS) return;
    [asking, count] = [true, 0];
    ask();
  }

  function takeSnapshot(message) {
    if (!Number.isInteger(message.version) || message.version < state.version || replace(message) === false) return;
    state.version = message.version;
    asking = false;
    const behind = newest > state.version; // it is older than a message that arrived before it
    newest = -1;
    if (behind) miss();
  }

  function onMessage(message) {
    heard = true;
    take(message);
    note(false);
    if (expects()) expect();
  }

  function take(message) {
    if (message?.kind === "snapshot") takeSnapshot(message);
    else if (message) {
      answered(message);
      const { version } = message;
      if (!Number.isInteger(version) || version <= state.version) return; // it was known already
      if (version === state.version + 1) {
        state.version = version;
        if (apply(message) !== false) return;
        state.version = -1; // half of it was applied
      }
      newest = Math.max(newest, version);
      miss();
    }
  }

  function end(words) {
    if (gone) return;
    gone = words;
    clearTimeout(timer);
    clearTimeout(pause);
    ended(words);
  }
  const onRestart = () => end(RESTARTED);
  const onEnd = () => end(ENDED);

  model.on("msg:custom", onMessage);
  model.on("comm_live_update", onRestart);
  const disposed = disposedSignal(model);
  disposed?.connect(onEnd);
  ask();

  return {
    send,
    act,
    page,
    gone: () => gone,
    close() {
      clearTimeout(timer);
      clearTimeout(pause);
      model.off("msg:custom", onMessage);
      model.off("comm_live_update", onRestart);
      disposed?.disconnect(onEnd);
    },
  };
}

/* The signal that a kernel has ended. Where to find it is not documented anywhere. */
function disposedSignal(model) {
  try {
    const { disposed } = model.widget_manager.kernel;
    return typeof disposed.connect === "function" && typeof disposed.disconnect === "function" ? disposed : null;
  } catch {
    return null;
  }
}

/*
The default export of a module. `connect` creates what all views of a model share, or
returns null if there is nothing to show; its `end` ends it. `show` fills an element with
a view, and returns a function that ends the view.
*/
export function widgetModule(connect, show) {
  return () => {
    let shared = null;
    return {
      // Nothing is awaited here, because messages would be lost in the meantime.
      initialize({ model }) {
        shared = connect(model);
        return () => shared?.end();
      },
      render({ el }) {
        // A notebook opened without a kernel keeps its static element.
        if (!shared || el.classList.contains("jupyter-widgets-disconnected")) return undefined;
        return show(shared, el);
      },
    };
  };
}
