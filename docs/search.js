// Which result of the search stands first. People paste an error message or a question: its page is the answer,
// and among those the one whose title holds most of the words. So is the page of an operation whose whole name is
// asked for, as `layer norm`. The numbers below `score` are Sphinx's own.
var Scorer = {
  score: ([page, title, anchor, descr, score]) => {
    const named = page.startsWith("operations/by-name/");
    const words = text => new Set((text || "").toLowerCase().match(named ? /\p{L}+/gu : /[\p{L}\p{N}_]+/gu) || []);
    const held = words(title), asked = words(new URLSearchParams(location.search).get("q"));
    const question = page.startsWith("questions/") && page !== "questions/index";
    const whole = named && [...held].every(word => word.length < 2 || asked.has(word));
    return score + (question || whole ? 12 : 0) + 4 * [...asked].filter(word => held.has(word)).length;
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

// A pasted message holds words of the reader's own: the name of a class, a shape. Sphinx shows only pages that hold
// every word; where there is none, those that hold the most of them, or one less, are shown, if that is at least half.
if (typeof Search !== "undefined") {  // this file is read after Sphinx's own
  const every = Search.performTermsSearch;
  Search.performTermsSearch = (terms, excluded) => {
    const found = every(terms, excluded);
    if (found.length) return found;
    const pages = new Map();
    for (const word of terms)
      for (const result of every(new Set([word]), excluded))
        pages.set(result[0], [...(pages.get(result[0]) || []), result]);
    const most = Math.max(...[...pages.values()].map(results => results.length));
    const enough = Math.max(terms.size / 2, most - 1);
    return [...pages.values()].filter(results => results.length >= enough).map(results => results[0]);
  };
}

// Below a result stands what is around the words: in words, not in the LaTeX that formulas carry to be copied.
if (typeof Search !== "undefined") {
  const text = Search.htmlToText;
  Search.htmlToText = (page, anchor) => text(page.replace(/<annotation[^]*?<\/annotation>/g, ""), anchor);
}
