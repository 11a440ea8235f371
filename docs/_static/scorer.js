// Sphinx's own scores; of pages that fit alike, those of the manual come first, in its order.
var Scorer = {
  score: ([docname, title, anchor, description, score]) => score - (MANUAL.indexOf(docname) + 1 || 100) / 200,
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
