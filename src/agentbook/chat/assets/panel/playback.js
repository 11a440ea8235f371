/* The controls of a replay: play and pause, the position, and the speed. */
import { button, element, set, write } from "../core/dom.js";

export function playbackView(send) {
  let playing = false;
  let moving = false; // while a person drags the position
  let speeds = "";
  const toggle = button({ class: "ab-button ab-play", onclick: () => send({ do: playing ? "pause" : "play" }) });
  const position = element("input", {
    type: "range",
    min: "0",
    step: "0.1",
    "aria-label": "Position in seconds",
    oninput() {
      moving = true;
    },
    onchange() {
      moving = false;
      send({ do: "seek", position: Number(position.value) });
    },
  });
  const time = element("span", { class: "ab-time" });
  const speed = element("select", { onchange: () => send({ do: "speed", speed: speed.value }) });
  const root = element(
    "div",
    { class: "ab-playback", role: "group", "aria-label": "Playback", hidden: "" },
    toggle,
    position,
    time,
    element("label", {}, "Speed ", speed),
  );

  function draw(playback, gone) {
    root.hidden = !playback || gone;
    if (root.hidden) return;
    playing = playback.playing === true;
    const [at, end] = [Number(playback.position) || 0, Number(playback.duration) || 0];
    write(toggle, playing ? "Pause" : at >= end ? "Play again" : "Play");
    set(position, "max", end);
    if (!moving) position.value = String(at);
    write(time, `${at.toFixed(1)} of ${end.toFixed(1)} s`);
    const labels = Array.isArray(playback.speeds) ? playback.speeds.map(String) : [];
    if (speeds !== labels.join()) {
      speeds = labels.join();
      speed.replaceChildren(...labels.map((label) => element("option", {}, label)));
    }
    speed.value = String(playback.speed);
  }

  return { root, draw };
}
