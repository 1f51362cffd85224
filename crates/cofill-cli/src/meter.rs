//! What is said about an answer beside the answer: what it cost, and whether it is all of it.

use crate::show::count;
use cofill::SamplerSpec;
use cofill::trace::CacheMeter;
use cofill_engine::{Finish, Generation, Length, RunOptions};

/// `topk:2+ad:40  38 tokens in 19 forwards, 2.00 per forward; 405.7 useful tokens/s`; with gaps whose length was found, what that took.
pub(crate) fn meter(sampler: &SamplerSpec, generation: &Generation) -> String {
    let probes = match generation.probes() {
        0 => String::new(),
        n => {
            let lengths: Vec<String> = generation.gaps.iter().map(|gap| gap.length.to_string()).collect();
            format!(" ({n} to find {} of {})", count(lengths.len(), "gap"), lengths.join(" and "))
        }
    };
    format!(
        "{sampler}  {} in {}{probes}, {:.2} per forward; {:.1} useful tokens/s",
        count(generation.filled(), "token"),
        count(generation.nfe, "forward"),
        generation.tokens_per_forward(),
        generation.useful_tokens_per_second(),
    )
}

/// `cache dual: 35 % of the positions of full forwards were computed (4 of 16 forwards full); drift not measured`
pub(crate) fn cache(meter: &CacheMeter) -> String {
    let CacheMeter { full_forwards, partial_forwards, refreshes, .. } = meter;
    let drift = match (meter.mean_kl, meter.max_kl) {
        (Some(mean), Some(max)) => {
            let flips = match meter.flips {
                Some(flips) => format!(", {flips} of which would have chosen otherwise"),
                None => String::new(),
            };
            let checks = count(meter.checks, "check");
            format!("drift {mean:.2e} nats on average, {max:.2e} at most, in {checks}{flips}")
        }
        _ => "drift not measured".into(),
    };
    let refreshed = if *refreshes > 0 { format!(", {refreshes} within blocks") } else { String::new() };
    format!(
        "cache {}: {:.0} % of the positions of full forwards were computed ({full_forwards} of {} full{refreshed}); {drift}",
        meter.cache,
        100.0 * meter.computed_share(),
        count(full_forwards + partial_forwards, "forward"),
    )
}

/// Why the answer may not be all that the model had to say, and what to do, with the words for the settings: `--length` or `/length`.
pub(crate) fn incomplete(generation: &Generation, options: &RunOptions, mark: &str) -> Option<String> {
    let nfe = generation.nfe;
    if generation.finish == Finish::Capped {
        return Some(match generation.canvas.n_masked() {
            0 => format!("the answer has no end after {mark}max-nfe {nfe}; raise it"),
            left => format!("{} left after {mark}max-nfe {nfe}; raise it", count(left, "mask")),
        });
    }
    let remedy = match options.length {
        Some(Length::Auto) => format!("raise {mark}max-length"),
        _ => format!("raise {mark}length or use {mark}length auto"),
    };
    let positions = count(generation.filled(), "position");
    let cut = || format!("the answer fills its {positions} without an end; it may be cut off: {remedy}");
    generation.is_cut_off().then(cut)
}
