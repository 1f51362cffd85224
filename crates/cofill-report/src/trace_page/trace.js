// The page of one trace: its replay in the elements of body.html.

import { Replay } from "./state.js";
import { Tip, Sheet, Detail, Status, Strip, Player } from "./draw.js";

const $ = (name) => document.getElementById(name);
const replay = new Replay(JSON.parse($("trace").textContent));
const last = replay.steps.length;

const tip = new Tip();
const sheet = new Sheet($("stage"), tip);
const detail = new Detail($("detail"), sheet);
const player = new Player($("controls"), {
  show,
  seek: (at, by) => replay.seek(at, by),
  follow: () => sheet.follow($("controls").getBoundingClientRect().bottom),
});
const status = new Status(player.row);
const strip = new Strip($("controls"), (at) => player.jump(at));

function show(frame) {
  sheet.show(frame);
  status.show(replay, frame);
  detail.show(replay, frame);
  strip.move(frame);
  player.slider.setAttribute("aria-valuetext", replay.summary(frame));
  if (!player.timer) $("said").textContent = [replay.summary(frame), ...(replay.deferred(frame) ? replay.reason(frame) : [])].join(" ");
}

sheet.load(replay);
strip.draw(replay, { at: [...replay.steps.keys(), last], most: last });
player.deferral.hidden = $("legend-late").hidden = replay.seek(0, 1) === null;
$("legend-back").hidden = !replay.steps.some((step) => step.remasked?.length);
document.addEventListener("keydown", (event) => event.key === "Escape" && tip.hide());
player.span(last);
// The end is what most want to see, also where the page is printed; `#step=3` leads elsewhere, and playing begins at the start.
const asked = /^#step=(\d+)$/.exec(location.hash);
player.go(asked ? Number(asked[1]) + 1 : last);
