// Sphinx's own scores. Of pages that fit alike, those titled so come first, then those of
// the manual, in its order.
var ASKED = (new URLSearchParams(location.search).get("q") || "").toLowerCase().match(/\w{4,}/g) || [];
var Scorer = {
  score: ([docname, title, anchor, description, score]) =>
    score +
    ASKED.filter((word) => title.toLowerCase().includes(word)).length -
    (MANUAL.indexOf(docname) + 1 || 100) / 200,
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
