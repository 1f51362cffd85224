//! One forward pass, looked at.

use crate::arrays::{self, Array1, Array2};
use pyo3::prelude::*;

/// What one forward pass says about some positions.
#[pyclass(frozen, module = "cofill")]
pub(crate) struct Probe {
    pub(crate) rows: Vec<usize>,
    pub(crate) prediction: cofill::Prediction,
}

impl Probe {
    fn column(&self, py: Python<'_>, field: fn(&cofill::RowStats) -> f64) -> Array1<f64> {
        arrays::vector(py, self.prediction.rows.iter().map(field).collect())
    }
}

#[pymethods]
impl Probe {
    /// The positions. int64 (m,)
    #[getter]
    fn rows(&self, py: Python<'_>) -> Array1<i64> {
        arrays::indices(py, self.rows.iter().copied())
    }

    /// The likeliest token of each. uint32 (m,)
    #[getter]
    fn token(&self, py: Python<'_>) -> Array1<u32> {
        arrays::vector(py, self.prediction.rows.iter().map(|row| row.token).collect())
    }

    /// c. float64 (m,)
    #[getter]
    fn confidence(&self, py: Python<'_>) -> Array1<f64> {
        self.column(py, |row| row.confidence)
    }

    /// 1 - c, summed over the other tokens. float64 (m,)
    #[getter]
    fn uncertainty(&self, py: Python<'_>) -> Array1<f64> {
        self.column(py, |row| row.uncertainty)
    }

    /// p(1) - p(2). float64 (m,)
    #[getter]
    fn margin(&self, py: Python<'_>) -> Array1<f64> {
        self.column(py, |row| row.margin)
    }

    /// H in nats. float64 (m,)
    #[getter]
    fn entropy(&self, py: Python<'_>) -> Array1<f64> {
        self.column(py, |row| row.entropy)
    }

    /// Attention among the positions: row = query, column = key. float64 (m, m)
    #[getter]
    fn attention(&self, py: Python<'_>) -> Option<Array2<f64>> {
        self.prediction.attention.as_ref().map(|attention| arrays::matrix(py, attention))
    }

    /// Whole distributions, if they were asked for. float32 (m, vocabulary)
    #[getter]
    fn distributions(&self, py: Python<'_>) -> Option<Array2<f32>> {
        self.prediction.distributions.as_ref().map(|all| {
            let values: Vec<f32> = (0..all.len()).flat_map(|row| all.row(row).iter().copied()).collect();
            arrays::two_dimensions(py, values, (all.len(), all.vocab()))
        })
    }
}
