//! Arrays across the border: whatever NumPy can convert comes in, contiguous arrays go out, and a wrong shape is named.

use crate::errors::request;
use cofill::TokenId;
use numpy::ndarray::{Dimension, Ix1, Ix2};
use numpy::{
    Element, PyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods,
};
use pyo3::inspect::PyStaticExpr;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::convert::Infallible;

/// An array on its way to Python. Its element type is named in the stubs, which NumPy's own type does not do.
pub(crate) struct Array<T, D>(Py<PyArray<T, D>>);

/// `[n]`
pub(crate) type Array1<T> = Array<T, Ix1>;
/// `[rows x columns]`
pub(crate) type Array2<T> = Array<T, Ix2>;

impl<T: Element, D: Dimension> From<Bound<'_, PyArray<T, D>>> for Array<T, D> {
    fn from(array: Bound<'_, PyArray<T, D>>) -> Array<T, D> {
        Array(array.unbind())
    }
}

/// What the stubs call a type of elements.
pub(crate) trait Named: Element {
    const HINT: PyStaticExpr;
}

/// `numpy.typing.NDArray[numpy.float64]`
macro_rules! named {
    ($($element:ty => $name:literal),*) => { $(impl Named for $element {
        const HINT: PyStaticExpr = PyStaticExpr::Subscript {
            value: &PyStaticExpr::Attribute { value: &PyStaticExpr::Name { id: "numpy.typing" }, attr: "NDArray" },
            slice: &PyStaticExpr::Attribute { value: &PyStaticExpr::Name { id: "numpy" }, attr: $name },
        };
    })* };
}

named!(f64 => "float64", f32 => "float32", i64 => "int64", u32 => "uint32");

impl<'py, T: Named, D: Dimension> IntoPyObject<'py> for Array<T, D> {
    type Target = PyArray<T, D>;
    type Output = Bound<'py, PyArray<T, D>>;
    type Error = Infallible;
    const OUTPUT_TYPE: PyStaticExpr = T::HINT;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Infallible> {
        Ok(self.0.into_bound(py))
    }
}

impl<'py, T: Named, D: Dimension> IntoPyObject<'py> for &Array<T, D> {
    type Target = PyArray<T, D>;
    type Output = Bound<'py, PyArray<T, D>>;
    type Error = Infallible;
    const OUTPUT_TYPE: PyStaticExpr = T::HINT;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Infallible> {
        Ok(self.0.bind(py).clone())
    }
}

/// `(3, 4)`, as NumPy writes shapes.
fn shape(array: &Bound<'_, PyAny>) -> String {
    array.getattr(intern!(array.py(), "shape")).map_or_else(|_| "no shape".into(), |shape| shape.to_string())
}

/// As a NumPy array of a type; lists, tensors on the CPU and other types are converted. `what` names it.
fn converted<'py>(what: &str, given: &Bound<'py, PyAny>, dtype: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
    let py = given.py();
    let keywords = PyDict::new(py);
    if let Some(dtype) = dtype {
        keywords.set_item(intern!(py, "dtype"), dtype)?;
    }
    let numpy = py.import(intern!(py, "numpy"))?;
    numpy.call_method(intern!(py, "ascontiguousarray"), (given,), Some(&keywords)).map_err(|error| {
        let kind = given.get_type().name().map_or_else(|_| "object".into(), |name| name.to_string());
        // A tensor on a GPU says so in its own words.
        let remedy = if kind == "Tensor" {
            "; move it to the CPU as float32: `tensor.detach().float().cpu().numpy()`"
        } else {
            ""
        };
        request(format!("{what}: a {kind} is no array of numbers ({}){remedy}", error.value(py)))
    })
}

/// Numbers, one for each of `want` things. `[want]`
pub(crate) fn floats(what: &str, given: &Bound<'_, PyAny>, want: Option<(usize, &str)>) -> PyResult<Vec<f64>> {
    let values = if let Ok(array) = given.extract::<PyReadonlyArray1<'_, f64>>() {
        array.as_array().to_vec()
    } else if let Ok(array) = given.extract::<PyReadonlyArray1<'_, f32>>() {
        array.as_array().iter().map(|&x| f64::from(x)).collect()
    } else {
        let array = converted(what, given, Some("float64"))?;
        let vector = array.cast::<PyArray1<f64>>().map_err(|_| one_dimension(what, &array, want))?;
        vector.readonly().as_array().to_vec()
    };
    counted(what, values, want)
}

/// Whole numbers that are not negative. `[want]`
pub(crate) fn integers(what: &str, given: &Bound<'_, PyAny>, want: Option<(usize, &str)>) -> PyResult<Vec<u64>> {
    let values: Vec<i64> = if let Ok(array) = given.extract::<PyReadonlyArray1<'_, i64>>() {
        array.as_array().to_vec()
    } else if let Ok(array) = given.extract::<PyReadonlyArray1<'_, u32>>() {
        array.as_array().iter().map(|&x| i64::from(x)).collect()
    } else {
        let array = converted(what, given, None)?;
        let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
        let empty = array.getattr("size")?.extract::<usize>()? == 0; // `[]` is an array of floats to NumPy
        if !(empty || kind == "i" || kind == "u") {
            let dtype = array.getattr("dtype")?;
            return Err(request(format!(
                "{what} has the type {dtype}, but must be whole numbers; convert it to int64"
            )));
        }
        let array = converted(what, &array, Some("int64"))?;
        let vector = array.cast::<PyArray1<i64>>().map_err(|_| one_dimension(what, &array, want))?;
        vector.readonly().as_array().to_vec()
    };
    if let Some(at) = values.iter().position(|&value| value < 0) {
        return Err(request(format!("{what}[{at}] is {}, but must be 0 or more", values[at])));
    }
    counted(what, values.into_iter().map(|value| value as u64).collect(), want)
}

/// One whole number, by name; Python's own error would say neither which nor how large it may be.
pub(crate) fn whole<T>(what: &str, given: &Bound<'_, PyAny>) -> PyResult<T>
where
    T: TryFrom<u64>,
{
    let number = given.extract::<u64>().ok().and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| {
        let bits = 8 * size_of::<T>();
        let given = given.repr().map_or_else(|_| "something else".into(), |text| text.to_string());
        request(format!("{what} is {given}, but must be a whole number, 0 or more and below 2^{bits}"))
    })
}

/// Token ids. `[want]`
pub(crate) fn tokens(what: &str, given: &Bound<'_, PyAny>, want: Option<(usize, &str)>) -> PyResult<Vec<TokenId>> {
    let token = |id: u64| {
        TokenId::try_from(id).map_err(|_| request(format!("{what}: {id} is no token id; ids are below 2^32")))
    };
    integers(what, given, want)?.into_iter().map(token).collect()
}

/// Positions in a canvas, or indices of rows.
pub(crate) fn positions(what: &str, given: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    Ok(integers(what, given, None)?.into_iter().map(|position| position as usize).collect())
}

/// Attention among `n` rows, written `[query x key]`, laid out `[key x query]` as the sampler reads it, in the memory of `out`.
pub(crate) fn by_key(what: &str, given: &Bound<'_, PyAny>, n: usize, mut out: Vec<f64>) -> PyResult<Vec<f64>> {
    let square = |rows: usize, columns: usize| match (rows, columns) == (n, n) {
        true => Ok(()),
        false => Err(request(format!(
            "{what} has shape ({rows}, {columns}), but {n} rows were asked for; give shape ({n}, {n}), row = query, column = key"
        ))),
    };
    if let Ok(array) = given.extract::<PyReadonlyArray2<'_, f32>>() {
        square(array.shape()[0], array.shape()[1])?;
        transpose(&array, n, f64::from, &mut out);
        return Ok(out);
    }
    let array = match given.cast::<PyArray2<f64>>() {
        Ok(array) => array.clone(),
        Err(_) => {
            let array = converted(what, given, Some("float64"))?;
            let shape = shape(&array);
            array.cast_into::<PyArray2<f64>>().map_err(|_| {
                request(format!("{what} has shape {shape}, but {n} rows were asked for; give shape ({n}, {n})"))
            })?
        }
    };
    let array = array.readonly();
    square(array.shape()[0], array.shape()[1])?;
    transpose(&array, n, |x| x, &mut out);
    Ok(out)
}

/// Rows and columns exchanged, however the array lies in memory.
fn transpose<T: Element + Copy>(
    array: &PyReadonlyArray2<'_, T>,
    n: usize,
    wide: impl Fn(T) -> f64,
    out: &mut Vec<f64>,
) {
    match array.as_slice() {
        Ok(values) if array.is_c_contiguous() => transpose_rows(values, n, wide, out),
        // Columns behind each other, which is how the sampler reads them.
        Ok(values) => {
            out.clear();
            out.extend(values.iter().map(|&x| wide(x)));
        }
        Err(_) => {
            out.clear();
            out.extend(array.as_array().t().iter().map(|&x| wide(x)));
        }
    }
}

/// `[n x n]` with rows and columns exchanged, in squares that stay in registers or nearly so.
fn transpose_rows<T: Copy>(values: &[T], n: usize, wide: impl Fn(T) -> f64, out: &mut Vec<f64>) {
    const SIDE: usize = 8;
    out.resize(n * n, 0.0); // a buffer that was used before is filled again, not cleared
    let whole = n - n % SIDE;
    for top in (0..whole).step_by(SIDE) {
        for left in (0..whole).step_by(SIDE) {
            let mut square = [[0.0; SIDE]; SIDE]; // [column][row]
            for row in 0..SIDE {
                let values = &values[(top + row) * n + left..][..SIDE];
                for column in 0..SIDE {
                    square[column][row] = wide(values[column]);
                }
            }
            for (column, rows) in square.iter().enumerate() {
                out[(left + column) * n + top..][..SIDE].copy_from_slice(rows);
            }
        }
    }
    // What no square covers: the last rows, and the last columns of the others.
    for row in 0..n {
        for column in if row < whole { whole..n } else { 0..n } {
            out[column * n + row] = wide(values[row * n + column]);
        }
    }
}

/// Whole distributions. `[rows x vocab]`
pub(crate) fn distributions(given: &Bound<'_, PyAny>, rows: usize) -> PyResult<cofill::Distributions> {
    let what = "distributions";
    let array = match given.cast::<PyArray2<f32>>() {
        Ok(array) => array.clone(),
        Err(_) => {
            let array = converted(what, given, Some("float32"))?;
            let shape = shape(&array);
            array.cast_into::<PyArray2<f32>>().map_err(|_| {
                request(format!(
                    "{what} has shape {shape}, but must have a row for each of {rows} rows: ({rows}, vocabulary)"
                ))
            })?
        }
    };
    let array = array.readonly();
    let (given, vocab) = (array.shape()[0], array.shape()[1]);
    if given != rows {
        return Err(request(format!(
            "{what} has shape ({given}, {vocab}), but {rows} rows were asked for; give shape ({rows}, {vocab})"
        )));
    }
    let values = array.as_array().iter().copied().collect();
    cofill::Distributions::new(vocab, values).map_err(request)
}

/// Attention as people write it, row = query. `[rows x rows]`
pub(crate) fn matrix(py: Python<'_>, attention: &cofill::Attention) -> Array2<f64> {
    let n = attention.len();
    let by_query = (0..n).flat_map(|query| (0..n).map(move |key| attention.get(query, key))).collect();
    two_dimensions(py, by_query, (n, n))
}

/// A flat buffer as rows and columns.
pub(crate) fn two_dimensions<T: Element>(py: Python<'_>, values: Vec<T>, shape: (usize, usize)) -> Array2<T> {
    let array = PyArray1::from_vec(py, values);
    array.reshape(shape).unwrap_or_else(|_| PyArray2::zeros(py, (0, 0), false)).into()
}

/// A buffer as it is.
pub(crate) fn vector<T: Element>(py: Python<'_>, values: Vec<T>) -> Array1<T> {
    PyArray1::from_vec(py, values).into()
}

/// Positions as NumPy indexes with them.
pub(crate) fn indices(py: Python<'_>, of: impl Iterator<Item = usize>) -> Array1<i64> {
    vector(py, of.map(|index| index as i64).collect())
}

fn one_dimension(what: &str, array: &Bound<'_, PyAny>, want: Option<(usize, &str)>) -> PyErr {
    let remedy = match want {
        Some((n, because)) => format!("({n},), {because}"),
        None => "(n,)".into(),
    };
    request(format!("{what} has shape {}; give shape {remedy}", shape(array)))
}

fn counted<T>(what: &str, values: Vec<T>, want: Option<(usize, &str)>) -> PyResult<Vec<T>> {
    match want {
        Some((n, because)) if values.len() != n => {
            Err(request(format!("{what} has shape ({},); give shape ({n},), {because}", values.len())))
        }
        _ => Ok(values),
    }
}

/// Any plain value of Python's as JSON: how keyword arguments become options, which are defined once, in Rust.
pub(crate) fn json(what: &str, given: &Bound<'_, PyAny>) -> PyResult<serde_json::Value> {
    use serde_json::Value;
    if given.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(text) = given.cast::<PyString>() {
        return Ok(Value::from(text.to_string()));
    }
    if let Ok(flag) = given.extract::<bool>() {
        return Ok(Value::from(flag));
    }
    if let Ok(number) = given.extract::<i64>() {
        return Ok(Value::from(number));
    }
    if let Ok(number) = given.extract::<u64>() {
        return Ok(Value::from(number));
    }
    if let Ok(number) = given.extract::<f64>() {
        // JSON has no NaN.
        return match serde_json::Number::from_f64(number) {
            Some(number) => Ok(Value::Number(number)),
            None => Err(request(format!("{what} is {number}; give a finite number"))),
        };
    }
    if let Ok(items) = given.try_iter() {
        return items.map(|item| json(what, &item?)).collect::<PyResult<Vec<_>>>().map(Value::Array);
    }
    let kind = given.get_type().name()?;
    Err(request(format!("{what}: a {kind} is nothing an option can be; give a number, a text, a list or None")))
}
