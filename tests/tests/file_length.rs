//! No file becomes the one where everything happens: 400 lines before the tests, 100 lines per function.

use std::path::Path;

use hermes_peer_tests::rust_files;

const MAX_FILE: usize = 400;
const MAX_FUNCTION: usize = 100;

/// Folders with code that ships or builds what ships.
const FOLDERS: [&str; 6] = [
    "hermes-peer-proto/src",
    "hermes-peer/src",
    "hermes-peer-derive/src",
    "hermes-peer-cli/src",
    "xtask/src",
    "examples",
];

/// Files that may be longer, each with the reason: tables are, and nothing else should be.
const LONGER: &[(&str, &str)] = &[];

#[test]
fn no_file_and_no_function_is_too_long() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut long = Vec::new();
    for file in FOLDERS.iter().flat_map(|folder| rust_files(&root.join(folder))) {
        let shown = file.strip_prefix(root).unwrap().display().to_string();
        if shown.ends_with("/tests.rs") || shown.contains("/tests/") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let lines = production_lines(&text);
        if lines.len() > MAX_FILE && !LONGER.iter().any(|(name, _)| *name == shown) {
            long.push(format!("{shown}:{}: {} lines, at most {MAX_FILE}", MAX_FILE + 1, lines.len()));
        }
        for (line, name, count) in functions(&lines).filter(|(_, _, count)| *count > MAX_FUNCTION) {
            long.push(format!("{shown}:{line}: `{name}` has {count} lines, at most {MAX_FUNCTION}"));
        }
    }
    assert!(long.is_empty(), "\n{}\n", long.join("\n"));
}

#[test]
fn an_exception_is_a_file_that_needs_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (name, _) in LONGER {
        let text = std::fs::read_to_string(root.join(name)).unwrap();
        assert!(production_lines(&text).len() > MAX_FILE, "{name} is short enough: strike it from the list");
    }
}

#[test]
fn lines_are_counted_up_to_the_tests_and_functions_to_their_brace() {
    let body = "    call();\n".repeat(100);
    let text = format!(
        "#[cfg(test)]\nmod tests;\nfn short() {{}}\nfn long(\n) {{\n{body}}}\n#[cfg(test)]\nmod more {{\nfn f() {{\n{body}}}\n}}\n"
    );
    let lines = production_lines(&text);
    assert_eq!(lines.len(), 106);
    assert_eq!(functions(&lines).collect::<Vec<_>>(), [(3, "short", 1), (4, "long", 103)]);
}

/// The lines before the inline test module.
fn production_lines(text: &str) -> Vec<&str> {
    let lines: Vec<_> = text.lines().collect();
    let begins_tests = |pair: &[&str]| {
        pair[0].trim() == "#[cfg(test)]" && pair[1].trim_start().starts_with("mod ") && pair[1].ends_with('{')
    };
    let end = lines.windows(2).position(begins_tests);
    lines[..end.unwrap_or(lines.len())].to_vec()
}

/// First line, name and length of each function. rustfmt puts the closing brace below the first letter of the signature.
fn functions<'a>(lines: &'a [&'a str]) -> impl Iterator<Item = (usize, &'a str, usize)> + 'a {
    lines.iter().enumerate().filter_map(|(index, line)| {
        let name = function_name(line)?;
        let indent = &line[..line.len() - line.trim_start().len()];
        let ends_here = line.ends_with([';', '}']);
        let is_end = |line: &&str| {
            line.strip_prefix(indent)
                .is_some_and(|rest| rest == "}" || (rest.starts_with(')') && rest.ends_with(';')))
        };
        let end = if ends_here { index } else { index + lines[index..].iter().position(is_end)? };
        Some((index + 1, name, end - index + 1))
    })
}

fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let is_qualifier = |word: &str| {
        matches!(word, "pub" | "const" | "async" | "unsafe" | "extern")
            || word.starts_with("pub(")
            || word == "\"C\""
    };
    let is_signature = before.split_whitespace().all(|word| is_qualifier(word) || word.ends_with(')'));
    let end = after.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    is_signature.then(|| &after[..end])
}
