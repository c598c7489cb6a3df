//! A type has a name of its own: a reader of `Answer` should not have to ask which of twelve.

use std::collections::BTreeMap;

use super::house::Read;

/// Type definitions whose name another type has too, with the modules that define it.
pub(super) fn shared(files: &[Read]) -> BTreeMap<String, Vec<String>> {
    let mut types: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for read in files {
        let in_tests = read.module.iter().any(|name| name == "tests");
        for pair in read.tokens.windows(2) {
            let is_definition = matches!(pair[0].text.as_str(), "struct" | "enum" | "trait");
            let named = pair[1].text.starts_with(char::is_uppercase);
            if is_definition && named && !pair[1].test && !in_tests {
                let name = pair[1].text.clone();
                types.entry(name).or_default().push(read.file.clone());
            }
        }
    }
    types.retain(|_, files| files.len() > 1);
    types
}
