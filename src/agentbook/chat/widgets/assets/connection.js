/*
What all modules share: the messages to and from the kernel, and that none is missed.
What was sent while a module was loading is lost, so each first says which version of
the state it shows; `chat/widgets/page_view.py` documents the messages.
*/

const RESTARTED = "The kernel restarted. Run the cell again to go on.";
const ENDED = "The kernel was shut down. Run the cell again to go on.";
const REPEAT_MS = 4000; // after which a question to the kernel is repeated
const REPEATS = 8;
// Jupyter Server sends the next of two short messages only when the browser has
// acknowledged the one before, and a browser does so after up to 40 ms, unless it has
// something to send. So what a person does is followed by a message that says nothing,
// at the time at which the kernel's first answer is there.
const NUDGE_MS = 10;

/*
Connect a model. `version` returns which version of the state is shown. `receive` takes
each message of the kernel, and returns true if it was used, and false if it has to wait
for a snapshot: because versions between are missing, or it does not fit. `ended` learns
that the kernel is gone.
*/
export function openConnection(model, { version, receive, ended }) {
  const page = Math.random().toString(36).slice(2);
  let [gone, count, heard, asking, timer] = ["", 0, false, false, 0];
  const joined = new Map(); // how to stop hearing each shared channel; null before it is heard
  let newest = -1; // of the messages that could not be used

  function send(message) {
    if (gone) return false;
    try {
      model.send(message);
      return true;
    } catch {
      return false; // the kernel is gone, and the page learns it in another way
    }
  }

  /* Send what a person does, who then waits for the answer. */
  function act(message) {
    const sent = send(message);
    if (sent) setTimeout(() => send({ do: "nudge" }), NUDGE_MS);
    return sent;
  }

  /* Ask until there is an answer: what the page missed, the kernel sends again. */
  function ask() {
    clearTimeout(timer);
    if (gone || count >= REPEATS) return;
    count += 1;
    send({ do: "hello", page, count, version: version() });
    timer = setTimeout(() => {
      if (!heard || asking) ask();
    }, REPEAT_MS);
  }

  function miss() {
    if (asking && count < REPEATS) return;
    [asking, count] = [true, 0];
    ask();
  }

  /* Hear what comes for several widgets in one message; `chat/widgets/shared_messages.py` says why. */
  async function join({ channel, key }) {
    const answer = (word) => send({ do: word, page, channel });
    answer(joined.get(channel) ? "joined" : "joining"); // always, or the page no longer counts
    if (joined.has(channel)) return;
    joined.set(channel, null);
    try {
      const shared = await model.widget_manager.get_model(channel);
      if (!joined.has(channel)) return; // closed meanwhile
      const onShared = (message) => {
        if (Object.hasOwn(message?.patches ?? {}, key)) onMessage(message.patches[key]);
      };
      shared.on("msg:custom", onShared);
      joined.set(channel, () => shared.off("msg:custom", onShared));
      answer("joined");
    } catch {
      // a page that does not have it: its messages keep coming one by one
    }
  }

  function onMessage(message) {
    heard = true;
    if (message?.kind === "join") {
      join(message);
      return;
    }
    const used = receive(message);
    if (used === false) {
      if (Number.isInteger(message?.version)) newest = Math.max(newest, message.version);
      miss();
    } else if (used && message?.kind === "snapshot") {
      asking = false;
      const behind = newest > version(); // it was made before the message that came first
      newest = -1;
      if (behind) miss();
    }
  }

  function end(words) {
    if (gone) return;
    gone = words;
    clearTimeout(timer);
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
    gone: () => gone,
    close() {
      clearTimeout(timer);
      for (const stop of joined.values()) stop?.();
      joined.clear();
      model.off("msg:custom", onMessage);
      model.off("comm_live_update", onRestart);
      disposed?.disconnect(onEnd);
    },
  };
}

/* The signal of a kernel's end. Where it is kept is nowhere documented. */
function disposedSignal(model) {
  try {
    const { disposed } = model.widget_manager.kernel;
    return typeof disposed.connect === "function" && typeof disposed.disconnect === "function" ? disposed : null;
  } catch {
    return null;
  }
}

/*
The default export of a module. `connect` makes what all views of a model share, or null
if there is nothing to show; its `end` ends it. `show` fills an element with a view, and
returns what ends that.
*/
export function widgetModule(connect, show) {
  return () => {
    let shared = null;
    return {
      // Nothing is awaited here: while this runs, messages would be lost.
      initialize({ model }) {
        shared = connect(model);
        return () => shared?.end();
      },
      render({ el }) {
        // A notebook that was opened without a kernel keeps its static element.
        if (!shared || el.classList.contains("jupyter-widgets-disconnected")) return undefined;
        return show(shared, el);
      },
    };
  };
}
