//! The `programs` section: capabilities that are commands.

use std::time::Duration;

use hermes_peer_proto::wire::Access;
use hermes_peer_proto::wire::Facts;

use super::read;
use super::section::Reader;
use super::section::Section;
use super::settings::ProgramConfig;
use super::tree::Value;
use super::value;

/// Reads `programs`.
pub(super) fn programs(reader: &mut Reader<'_>, top: &Section<'_>) -> Vec<ProgramConfig> {
    let mut programs: Vec<ProgramConfig> = Vec::new();
    for (node, path) in reader.items(top, "programs") {
        let Some(item) = reader.open(node, path) else {
            continue;
        };
        let Some(program) = program(reader, &item) else {
            continue;
        };
        if let Some(first) = programs.iter().position(|other| other.capability == program.capability) {
            let message = format!("`{}` is programs[{first}] already", program.capability);
            reader.error(
                item.at,
                &item.path,
                message,
                "a node provides a capability once: keep one of the two",
            );
        }
        programs.push(program);
    }
    programs
}

fn program(reader: &mut Reader<'_>, item: &Section<'_>) -> Option<ProgramConfig> {
    let capability = reader.need(item, "capability", read::name);
    let command = command(reader, item);
    let schema = read::file_of(reader, item, "schema");
    let description = item
        .entry("description")
        .and_then(|entry| Some(reader.verbatim(&entry.node, item.path_of("description"))?.text));
    let mut facts = Facts::default();
    reader.switch(item, "idempotent", &mut facts.idempotent);
    reader.switch(item, "read_only", &mut facts.read_only);
    reader.switch(item, "destructive", &mut facts.destructive);
    reader.switch(item, "reentrant", &mut facts.reentrant);
    let mut streams = false;
    reader.switch(item, "streams", &mut streams);
    let mut timeout = Duration::from_secs(30);
    reader.duration(item, "timeout", &mut timeout, read::TIMES);
    // A shell alone needs some MiB to start.
    let memory = reader.get(item, "memory", |text| value::size(text, &(1 << 20..=1 << 40)));
    let mut concurrency = 4;
    reader.count(item, "concurrency", &mut concurrency, 1..=10_000);
    let words = [("public", Access::Public), ("restricted", Access::Restricted), ("admin", Access::Admin)];
    let access = reader.get(item, "access", |text| value::one_of(text, &words)).unwrap_or_default();
    Some(ProgramConfig {
        capability: capability?,
        command: command?,
        schema,
        description,
        streams,
        timeout,
        memory,
        concurrency,
        access,
        facts,
    })
}

/// The command as it stands: `$` is for the program that gets it.
fn command(reader: &mut Reader<'_>, item: &Section<'_>) -> Option<Vec<String>> {
    let path = item.path_of("command");
    let remedy = "write the program and each argument as one item: `command: [./echo.sh, --fast]`";
    let Some(entry) = item.entry("command") else {
        reader.error(item.at, &item.path, "`command` is missing", remedy);
        return None;
    };
    let mut words = Vec::new();
    for (node, path) in reader.items(item, "command") {
        words.push(reader.verbatim(node, path)?.text);
    }
    let Some(program) = words.first_mut().filter(|program| !program.is_empty()) else {
        if matches!(entry.node.value, Value::List(_)) {
            reader.error(entry.node.at, &path, "the command has no program", remedy);
        }
        return None;
    };
    if program.contains('/') {
        let whole = reader.around.base.join(&*program);
        if !whole.is_file() {
            let message = format!("there is no program `{}`", whole.display());
            reader.error(entry.node.at, &path, message, "relative paths start at the folder of this file");
        }
        *program = whole.to_string_lossy().into_owned();
    }
    Some(words)
}
