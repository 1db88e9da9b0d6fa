//! The command itself, in folders of its own: what it makes, what it prints where, and how it ends.

// Rights of files, shell scripts and /dev/full are what is looked at.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot run the command has failed")]

mod answers;
mod call;
mod certs;
mod check;
mod host;
mod init;
mod look;
mod stdout;
mod support;
