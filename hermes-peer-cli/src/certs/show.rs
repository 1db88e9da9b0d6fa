//! `hermes-peer certs show`: what certificates say.

use std::path::Path;
use std::path::PathBuf;
use std::time::SystemTime;

use hermes_peer::certificates::Authority;
use hermes_peer::certificates::CertificateFacts;
use hermes_peer::certificates::Utc;
use serde::Serialize;

use crate::args::AuthorityFolder;
use crate::exit::Failure;
use crate::exit::tell;
use crate::output::Column;
use crate::output::Output;
use crate::output::Paint;
use crate::output::Table;

use super::when;

/// Most files of a folder that are shown without being named: what is more is some other folder.
const MAX_FILES: usize = 10_000;

/// A certificate, as it is printed.
#[derive(Debug, Serialize)]
struct Shown {
    file: String,
    agent: Option<String>,
    node: Option<String>,
    serial: String,
    issuer: String,
    is_authority: bool,
    not_before: String,
    not_after: String,
    /// None where the authority is not at hand, or is another.
    revoked: Option<bool>,
    state: State,
    #[serde(skip)]
    until: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Valid,
    NotYetValid,
    Expired,
    Revoked,
}

pub(super) fn run(
    files: &[PathBuf],
    folder: &AuthorityFolder,
    is_json: bool,
    out: &mut Output,
) -> Result<(), Failure> {
    let lookup = Lookup::open(&folder.ca);
    let (files, is_named) =
        if files.is_empty() { (certificates_in(&folder.ca)?, false) } else { (files.to_vec(), true) };
    let mut shown = Vec::new();
    for file in &files {
        match super::load(file) {
            Ok(facts) => shown.push(lookup.describe(file, facts)),
            Err(failure) if is_named => return Err(failure),
            // A folder holds keys, lists and other things too.
            Err(_) => {}
        }
    }
    if shown.is_empty() {
        return Err(Failure::usage(format!("there is no certificate in {}", folder.ca.display())));
    }
    if is_json { out.json(&shown) } else { print(&shown, out) }
}

fn certificates_in(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let refused = |error| {
        Failure::usage(format!(
            "cannot read {}: {error}; name certificate files, or the authority's folder with --ca",
            folder.display()
        ))
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(refused)?.take(MAX_FILES) {
        let path = entry.map_err(refused)?.path();
        if path.extension().is_some_and(|end| end == "pem" || end == "crt") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The authority that knows what is revoked.
struct Lookup(Option<(Authority, String)>);

impl Lookup {
    fn open(folder: &Path) -> Self {
        if !folder.join("ca.pem").exists() {
            return Self(None);
        }
        let opened = Authority::open(folder).map_err(|error| error.to_string());
        let opened = opened.and_then(|authority| {
            let own = CertificateFacts::load(&authority.ca_path()).map_err(|error| error.to_string())?;
            Ok((authority, own.issuer))
        });
        match opened {
            Ok(opened) => Self(Some(opened)),
            Err(error) => {
                tell(format_args!("note: what is revoked is not known: {error}"));
                Self(None)
            }
        }
    }

    fn is_revoked(&self, file: &Path, facts: &CertificateFacts) -> Option<bool> {
        let (authority, name) = self.0.as_ref()?;
        if *name != facts.issuer {
            return None;
        }
        match authority.show(file) {
            Ok(facts) => Some(facts.is_revoked),
            Err(error) => {
                tell(format_args!("note: what is revoked is not known: {error}"));
                None
            }
        }
    }

    fn describe(&self, file: &Path, facts: CertificateFacts) -> Shown {
        let revoked = self.is_revoked(file, &facts);
        let now = SystemTime::now();
        let state = match revoked {
            Some(true) => State::Revoked,
            _ if now < facts.not_before => State::NotYetValid,
            _ if now > facts.not_after => State::Expired,
            _ => State::Valid,
        };
        let relative = when::relative(facts.not_after);
        let until = match state {
            State::Expired => format!("{} (expired {relative})", Utc(facts.not_after)),
            _ => format!("{} ({relative})", Utc(facts.not_after)),
        };
        Shown {
            file: file.display().to_string(),
            agent: facts.agent.map(|agent| agent.to_string()),
            node: facts.node.map(|node| node.to_string()),
            serial: facts.serial,
            issuer: facts.issuer,
            is_authority: facts.is_authority,
            not_before: format!("{:#}", Utc(facts.not_before)),
            not_after: format!("{:#}", Utc(facts.not_after)),
            revoked,
            state,
            until: if state == State::NotYetValid {
                format!("{until}, not valid before {}", Utc(facts.not_before))
            } else {
                until
            },
        }
    }
}

fn print(shown: &[Shown], out: &mut Output) -> Result<(), Failure> {
    let column = |paint| Column { paint, is_right: false };
    let mut table = Table::new(&[
        column(Paint::Name),
        column(Paint::Plain),
        column(Paint::Plain),
        column(Paint::Plain),
        column(Paint::Plain),
        column(Paint::Value),
        column(Paint::Plain),
    ]);
    let titles = ["AGENT", "NODE", "SERIAL", "VALID FROM", "VALID UNTIL", "REVOKED", "FILE"];
    table.row(titles.map(str::to_owned));
    for one in shown {
        let none = if one.is_authority { "authority" } else { "none" };
        let revoked = match one.revoked {
            Some(true) => "revoked",
            Some(false) => "no",
            None => "unknown",
        };
        table.row([
            one.agent.clone().unwrap_or_else(|| none.to_owned()),
            one.node.clone().unwrap_or_else(|| "-".to_owned()),
            one.serial.clone(),
            one.not_before.replace('T', " ").replace('Z', ""),
            one.until.clone(),
            revoked.to_owned(),
            one.file.clone(),
        ]);
    }
    out.table(&table)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    #[test]
    fn a_certificate_of_another_time_says_so() {
        // FC-020
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::create(folder.path()).unwrap();
        let facts = CertificateFacts::load(&authority.ca_path()).unwrap();
        let lookup = Lookup::open(folder.path());
        let shown = |not_before: SystemTime, not_after: SystemTime| {
            let mut facts = facts.clone();
            (facts.not_before, facts.not_after) = (not_before, not_after);
            lookup.describe(&authority.ca_path(), facts)
        };
        let now = SystemTime::now();
        let expired = shown(now - 9 * DAY, now - 3 * DAY - Duration::from_secs(60));
        assert_eq!(expired.state, State::Expired);
        assert!(expired.until.ends_with(" UTC (expired 3 days ago)"), "{}", expired.until);
        let early = shown(now + 2 * DAY, now + 9 * DAY);
        assert_eq!(early.state, State::NotYetValid);
        assert!(early.until.contains(", not valid before "), "{}", early.until);
        assert_eq!(shown(now - DAY, now + DAY).state, State::Valid);
    }
}
