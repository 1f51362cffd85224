//! Results of samplers, compared at equal cost, and everything that is printed about them.
//!
//! From files to pages:
//!
//! | module | what |
//! |---|---|
//! | [`output`] | files written where a user pointed: what exists is not touched unasked |
//! | [`written`] | files written to the same folder again and again: what is left over goes, what is not ours stays |
//! | [`jsonl`] | files that grow: a header, then a line per measurement |
//! | [`results`] | files of results: what was run, then a record per question |
//! | [`points`] | operating points, from results or from tables: a sampler, its score, and the forwards that took |
//! | [`statistics`] | points compared: matched gains, paired tests, fronts; bootstrap, rank correlation, KL |
//! | [`report`] | all comparisons of some points, as tables, numbers and figures |
//! | [`document`] | headings, tables, notes and figures, written as Markdown, HTML and LaTeX; diagnostics use it too |
//! | [`plot`] | figures as data, drawn as SVG and PNG |
//! | [`tuned`] | which sampler was found for a budget, and the one line that says so |
//! | [`trace_page`] | a trace as a page for a browser, or for a cell of a notebook |

pub mod document;
pub mod jsonl;
mod lock;
pub mod output;
pub mod plot;
pub mod points;
pub mod report;
pub mod results;
pub mod statistics;
pub mod trace_page;
pub mod tuned;
pub mod written;
