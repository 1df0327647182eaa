// Which result of the search stands first. People paste an error message or a question: its page is the answer,
// and among those the one whose title holds most of the words. The numbers below `score` are Sphinx's own.
var Scorer = {
  score: ([page, title, anchor, descr, score]) => {
    const words = text => new Set((text || "").toLowerCase().match(/[\p{L}\p{N}_]+/gu) || []);
    const held = words(title), asked = words(new URLSearchParams(location.search).get("q"));
    const question = page.startsWith("questions/") && page !== "questions/index";
    return score + (question ? 12 : 0) + 4 * [...asked].filter(word => held.has(word)).length;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
