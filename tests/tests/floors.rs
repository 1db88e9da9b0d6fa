//! Modules stand on floors: each imports only what its row names. Without this test the rows are a wish.

#![expect(clippy::unwrap_used, reason = "a test that cannot read the sources has failed")]

use std::path::Path;

use hermes_peer_tests::rust_files;

/// A module and the modules that it may import, from either crate. Its own name is understood.
type Row = (&'static str, &'static [&'static str]);

const PROTO: &[Row] = &[
    ("wire", &[]),
    ("security", &["wire"]),
    ("protocol", &["wire", "security"]),
    ("testing", &["wire", "security", "protocol"]),
];

const PEER: &[Row] = &[
    ("schema", &["wire"]),
    ("observe", &["wire"]),
    ("transport", &["wire", "security"]),
    // An endpoint and a private folder are the transport's; the edge goes one way.
    ("discovery", &["wire", "transport"]),
    ("link", &["wire", "security", "protocol", "observe", "transport"]),
    ("journal", &["wire", "observe"]),
    ("metrics", &["observe"]),
    // What a link hands up are the protocol's own types: wrapped they would have two names.
    ("mesh", &["wire", "schema", "security", "protocol", "observe", "transport", "discovery", "link"]),
    ("config", &["wire", "security", "transport", "discovery", "link", "mesh", "journal"]),
    (
        "api",
        &[
            "wire",
            "schema",
            "security",
            "protocol",
            "observe",
            "transport",
            "discovery",
            "link",
            "journal",
            "metrics",
            "mesh",
            "config",
        ],
    ),
];

/// Folders whose `mod.rs` holds the traits that its files implement.
const TRAITS_IN_MOD: [&str; 2] = ["transport", "discovery"];

#[test]
fn a_floor_imports_only_what_its_row_names() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut broken = Vec::new();
    for (package, table) in [("hermes-peer-proto", PROTO), ("hermes-peer", PEER)] {
        let src = root.join(package).join("src");
        for file in rust_files(&src) {
            let text = std::fs::read_to_string(&file).unwrap();
            let module = module_path(file.strip_prefix(&src).unwrap());
            let shown = file.strip_prefix(root).unwrap().display().to_string();
            broken.extend(
                edges_broken(table, &module, &text, is_for_tests(&file))
                    .map(|(line, why)| format!("{shown}:{line}: {why}")),
            );
        }
    }
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

#[test]
fn the_table_has_no_ring() {
    let rows: Vec<&Row> = PROTO.iter().chain(PEER).collect();
    let place = |name: &str| rows.iter().position(|row| row.0 == name).unwrap();
    for (index, (module, allowed)) in rows.iter().enumerate() {
        for lower in *allowed {
            assert!(place(lower) < index, "`{module}` stands above `{lower}`");
        }
    }
}

#[test]
fn each_kind_of_broken_edge_is_named() {
    let of = |module: &[&str], text: &str| -> Vec<_> {
        let module: Vec<_> = module.iter().map(|name| (*name).to_owned()).collect();
        edges_broken(PEER, &module, text, false).collect()
    };
    for (line, part) in [
        ("use crate::mesh::Route;", "`link` may not import `mesh`"),
        ("let x = hermes_peer_proto::schema::y();", "`link` may not import `schema`"),
        ("use crate::{mesh, wire};", "one `use` per module"),
        ("use hermes_peer_proto::{wire};", "one `use` per module"),
        ("use crate::Route;", "through the crate's root"),
        ("use super::super::mesh::Route;", "reaches the crate's root by `super`"),
        ("use super::LinkHandle;", "imports its folder's `mod.rs`"),
    ] {
        let broken = of(&["link", "driver"], &format!("//! crate::api\n{line}\n"));
        assert_eq!(broken.len(), 1, "{line}: {broken:?}");
        assert!(broken[0].0 == 2 && broken[0].1.contains(part), "{line}: {broken:?}");
    }
    let good = "use crate::observe::Observation;\nuse hermes_peer_proto::wire::NodeId;\nuse super::command::Command;\n";
    assert_eq!(of(&["link", "driver"], good), []);
    assert_eq!(of(&["transport", "tcp"], "use super::Transport;"), []);
    assert_eq!(
        of(
            &["link", "driver"],
            "use super::command::X;\n#[cfg(test)]\nmod tests {\nuse super::LinkHandle;\n}"
        ),
        [],
        "tests may use what the folder shows"
    );
    assert_eq!(of(&["lik"], "").len(), 1, "a module without a row");
}

/// Line and reason of each edge in `text` that the table does not have.
fn edges_broken<'a>(
    table: &'a [Row],
    module: &'a [String],
    text: &'a str,
    is_for_tests: bool,
) -> impl Iterator<Item = (usize, String)> + 'a {
    let row = module.first().map(|name| (name, table.iter().find(|row| row.0 == name)));
    let unknown = match row {
        Some((name, None)) => Some((1, format!("`{name}` has no row in the table of floors"))),
        _ => None,
    };
    // The crate's root shows what all floors have.
    let known = row.and_then(|(_, row)| row);
    let tests_from = if is_for_tests { Some(0) } else { inline_tests(text) };
    let lines = known.into_iter().flat_map(move |row| {
        text.lines().enumerate().flat_map(move |(index, line)| {
            let in_tests = tests_from.is_some_and(|from| index >= from);
            // An inline module is one step further from the root than its file.
            let depth = module.len() + usize::from(in_tests && !is_for_tests);
            let why = check_line(row, depth, line, in_tests);
            why.into_iter().map(move |why| (index + 1, why))
        })
    });
    unknown.into_iter().chain(lines)
}

/// The line at which the inline test module begins.
fn inline_tests(text: &str) -> Option<usize> {
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let begins =
        |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{');
    lines.windows(2).position(begins)
}

/// Whether the folder's `mod.rs` declares this file for tests only.
fn is_for_tests(file: &Path) -> bool {
    let folder = std::fs::read_to_string(file.with_file_name("mod.rs")).unwrap_or_default();
    let declaration = format!("mod {};", file.file_stem().unwrap().to_string_lossy());
    let lines: Vec<_> = folder.lines().map(str::trim).collect();
    let declares = |pair: &[&str]| {
        (pair[0] == "#[cfg(test)]" || pair[0] == "#[cfg(any(test, feature = \"testing\"))]")
            && pair[1].ends_with(&declaration)
    };
    lines.windows(2).any(declares)
}

fn check_line((name, allowed): &Row, depth: usize, line: &str, in_tests: bool) -> Vec<String> {
    let mut broken = Vec::new();
    if line.trim_start().starts_with("//") {
        return broken;
    }
    for root in ["crate::", "hermes_peer_proto::"] {
        for next in after(line, root) {
            let target = ident(next);
            if next.starts_with('{') {
                broken.push(format!(
                    "`{root}{{`: one `use` per module, so that the line carries its whole path"
                ));
            } else if target.is_empty() || target.starts_with(char::is_uppercase) {
                broken.push(format!("`{root}{target}` goes through the crate's root: name the module"));
            } else if target != *name && !allowed.contains(&target) && !(in_tests && target == "testing") {
                broken.push(format!("`{name}` may not import `{target}`: {}", line.trim()));
            }
        }
    }
    for next in after(line, "super::").filter(|next| !next.starts_with("super::")) {
        let ups = line[..line.len() - next.len()].matches("super::").count();
        if ups >= depth {
            broken.push(format!("reaches the crate's root by `super`: {}", line.trim()));
        } else if ups == 1
            && !in_tests
            && !TRAITS_IN_MOD.contains(name)
            && next.starts_with(char::is_uppercase)
        {
            broken.push(format!(
                "imports its folder's `mod.rs`: name the file, `super::file::{}`",
                ident(next)
            ));
        }
    }
    broken
}

/// What follows each `root` that begins a path.
fn after<'a>(line: &'a str, root: &'a str) -> impl Iterator<Item = &'a str> {
    line.match_indices(root).filter_map(move |(at, _)| {
        let before = line[..at].chars().next_back();
        let begins = !before.is_some_and(|c| c.is_alphanumeric() || c == '_') && before != Some('$');
        begins.then(|| &line[at + root.len()..])
    })
}

fn ident(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

/// `mesh/call.rs` is `mesh`, `call`; a folder's `mod.rs` is the folder; `lib.rs` is nothing.
fn module_path(file: &Path) -> Vec<String> {
    let names = file.with_extension("");
    let names = names.iter().map(|name| name.to_string_lossy().into_owned());
    names.filter(|name| name != "mod" && name != "lib").collect()
}
