//! What a folder of benchmark files holds.

use super::{Benchmark, gsm8k, humaneval, math500, mbpp};
use crate::data::{self, Error, FILES, File, Row, Source, load};
use std::path::Path;

/// A file of [`FILES`] as it was found, or why it cannot be used.
#[derive(Debug)]
pub struct Finding {
    /// The file that was looked for.
    pub file: &'static File,
    /// The benchmarks that read it.
    pub tasks: Vec<Benchmark>,
    /// Its content, or why it cannot be used.
    pub found: Result<Source, Error>,
}

/// Looks for every data file in a folder and reads those that are there. Only a folder that does not exist is an error.
pub fn check(folder: &Path) -> Result<Vec<Finding>, Error> {
    if !folder.is_dir() {
        return Err(Error::Folder { path: folder.into() });
    }
    let finding = |file: &'static File| {
        let tasks = Benchmark::ALL.into_iter().filter(|task| task.files().contains(&file)).collect();
        Finding { file, tasks, found: find(folder, file) }
    };
    Ok(FILES.iter().map(|file| finding(file)).collect())
}

/// A file, read as the rows that it should hold.
fn find(folder: &Path, file: &'static File) -> Result<Source, Error> {
    fn read<R: Row>(folder: &Path, file: &'static File) -> Result<Source, Error> {
        load::<R>(folder, file).map(|(_, source)| source)
    }
    match file {
        file if *file == data::GSM8K_COT_SHOTS => read::<gsm8k::Shot>(folder, file),
        file if *file == data::MATH500_TEST => read::<math500::Row>(folder, file),
        file if *file == data::MINERVA_SHOTS => read::<math500::Shot>(folder, file),
        file if *file == data::HUMANEVAL_TEST => read::<humaneval::Row>(folder, file),
        file if *file == data::MBPP_TEST => read::<mbpp::Row>(folder, file),
        file if *file == data::MBPP_SHOTS => read::<mbpp::Shot>(folder, file),
        file => read::<gsm8k::Row>(folder, file),
    }
}
