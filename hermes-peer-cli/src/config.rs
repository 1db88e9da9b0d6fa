//! Which configuration file is meant.

use std::path::Path;
use std::path::PathBuf;

use crate::args::Global;
use crate::exit::Failure;

/// The file that is looked for where none is named.
pub(crate) const DEFAULT_FILE: &str = "peers.yaml";

/// The file that is named, or else ./peers.yaml where there is one.
pub(crate) fn find(global: &Global) -> Option<PathBuf> {
    let default = || Path::new(DEFAULT_FILE).exists().then(|| PathBuf::from(DEFAULT_FILE));
    global.config.clone().or_else(default)
}

/// The file, for a verb that cannot do without.
pub(crate) fn need(global: &Global) -> Result<PathBuf, Failure> {
    find(global).ok_or_else(|| {
        Failure::usage(format!(
            "there is no {DEFAULT_FILE} here; name a configuration file, or make one with `hermes-peer init`"
        ))
    })
}
