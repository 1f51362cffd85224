//! How well a number tells two kinds of things apart: the area under the ROC curve.

use super::spearman::ranks;

/// P(yes > no) + ½ P(equal) for a random thing of either kind, by the ranks of all; .5 says nothing. None when one kind is missing.
///
/// ```
/// use cofill_report::statistics::auc::auc;
/// // 3 and 1 against 1 and 0: 3 > 1, 3 > 0, 1 > 0, and 1 = 1 counts ½, so 3.5 of 4.
/// assert_eq!(auc(&[3.0, 1.0, 1.0, 0.0], &[true, true, false, false]), Some(0.875));
/// assert_eq!(auc(&[3.0, 1.0], &[true, true]), None);
/// ```
pub fn auc(values: &[f64], yes: &[bool]) -> Option<f64> {
    let of_yes: Vec<f64> = ranks(values).into_iter().zip(yes).filter(|(_, yes)| **yes).map(|(rank, _)| rank).collect();
    let (n, m) = (of_yes.len() as f64, (values.len() - of_yes.len()) as f64);
    if n == 0.0 || m == 0.0 {
        return None;
    }
    // The mean rank of n values that are below everybody else is (n + 1) / 2.
    Some((of_yes.iter().sum::<f64>() / n - (n + 1.0) / 2.0) / m)
}
