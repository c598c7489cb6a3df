//! [`DirectoryKey`]: the key of a page that ends in `/`, which installers request, compared with the
//! file of the page. S3 has both as objects of their own, so one of them can be damaged alone.

/// What stands under the key that ends in `/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirectoryKey {
    Same,
    Different,
    Empty,
    Absent,
}

impl DirectoryKey {
    /// Compares the text under the key with that of the file. `None` if that says nothing about the
    /// set.
    pub(super) fn of(
        file: &str,
        text: Option<&str>,
        named: Option<&str>,
        is_web: bool,
    ) -> Option<Self> {
        match (text, named?) {
            // Some web servers serve files only.
            (None, _) => (!is_web).then_some(Self::Absent),
            (Some(text), named) if text == named => Some(Self::Same),
            (Some(""), _) => Some(Self::Empty),
            // Others list the files of a directory, as HTML.
            (Some(text), _) if is_web && text.starts_with('<') != file.ends_with("html") => None,
            (Some(_), _) => Some(Self::Different),
        }
    }
}

/// The pages whose two keys differ, each with what is wrong.
///
/// Some servers drop the contents of such keys, and `--no-directory-pages` writes none: if no page of
/// the set has one with contents, the set was published like that.
pub(super) fn torn(keys: &[(String, DirectoryKey)]) -> Vec<(String, String)> {
    let mut kinds = keys.iter().map(|(_, key)| *key);
    let has_keys = kinds.any(|key| matches!(key, DirectoryKey::Same | DirectoryKey::Different));
    let torn = keys.iter().filter_map(|(page, key)| {
        let why = match key {
            DirectoryKey::Different => "it differs from the file of the page",
            DirectoryKey::Empty if has_keys => "it is empty, unlike the file of the page",
            DirectoryKey::Absent if has_keys => "it is missing, unlike the file of the page",
            _ => return None,
        };
        Some((page.clone(), why.to_owned()))
    });
    torn.collect()
}
