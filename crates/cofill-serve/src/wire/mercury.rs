//! Mercury's edit forms: one message whose text has sections between tags. Its other fields are OpenAI's.

/// The region to edit, and what stands around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    /// The file before the region.
    pub before: String,
    /// The region, without the cursor.
    pub region: String,
    /// The file behind the region.
    pub after: String,
}

const OPEN: &str = "<|code_to_edit|>";
const CLOSE: &str = "<|/code_to_edit|>";
const FILE: &str = "<|current_file_content|>";
const FILE_END: &str = "<|/current_file_content|>";
const CURSOR: &str = "<|cursor|>";
const PATH: &str = "current_file_path:";

impl Edit {
    /// Reads the message of `/v1/edit/completions`; `None` without a region.
    pub(crate) fn read(content: &str) -> Option<Edit> {
        let (before, rest) = content.split_once(OPEN)?;
        let (region, after) = rest.split_once(CLOSE)?;
        let before = before.rsplit_once(FILE).map_or(before, |(_, file)| file).trim_start_matches('\n');
        let before = match before.strip_prefix(PATH) {
            Some(named) => named.split_once('\n').map_or("", |(_, file)| file),
            None => before,
        };
        let after = after.split_once(FILE_END).map_or(after, |(file, _)| file);
        let plain = |text: &str| text.replace(CURSOR, "");
        Some(Edit { before: plain(before), region: plain(region), after: plain(after) })
    }
}

/// The original code and the snippet of `/v1/apply/completions`; `None` without either.
pub(crate) fn read_apply(content: &str) -> Option<(String, String)> {
    let between = |open: &str, close: &str| {
        let (_, rest) = content.split_once(open)?;
        Some(rest.split_once(close)?.0.trim_matches('\n').to_owned())
    };
    let original = between("<|original_code|>", "<|/original_code|>")?;
    Some((original, between("<|update_snippet|>", "<|/update_snippet|>")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_region_and_its_surroundings_are_found() {
        let content = "<|recently_viewed_code_snippets|>\n<|/recently_viewed_code_snippets|>\n\
            <|current_file_content|>\ncurrent_file_path: a.py\nx = 1\n<|code_to_edit|>\ny <|cursor|>= 2\n<|/code_to_edit|>\nz = 3\n\
            <|/current_file_content|>\n<|edit_diff_history|>\n<|/edit_diff_history|>";
        let edit = Edit::read(content).unwrap();
        let expected = Edit { before: "x = 1\n".into(), region: "\ny = 2\n".into(), after: "\nz = 3\n".into() };
        assert_eq!(edit, expected);
        assert_eq!(Edit::read("no region"), None);
    }
}
