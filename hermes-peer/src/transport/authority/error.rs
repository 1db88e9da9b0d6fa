//! Why an authority cannot do what it is asked.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::transport::authority::validity::DAY;
use crate::transport::authority::validity::DEFAULT_VALIDITY;
use crate::transport::authority::validity::MAX_VALIDITY;
use crate::transport::facts::Rough;
use crate::transport::pem::PemError;

/// Why an authority cannot do what it is asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// There is one already, and it is never overwritten.
    #[error("{} is there already; an authority is never overwritten: use it, or name another folder", path.display())]
    Exists {
        /// The file that is in the way.
        path: PathBuf,
    },
    /// A file cannot be made or changed.
    #[error("{} cannot be written: {why}", path.display())]
    Unwritable {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        why: io::Error,
    },
    /// A file of the authority does not hold what it should.
    #[error(transparent)]
    Pem(#[from] PemError),
    /// The files are of another program, or not a pair.
    #[error("{} is no authority made by Hermes: {why}; make one with `hermes-peer certs init`", path.display())]
    NotOurs {
        /// The folder.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A validity that no certificate gets.
    #[error("a certificate cannot be valid for {}; from 1 minute to {} days, {} by default", Rough(*given), MAX_VALIDITY.as_secs() / DAY, DEFAULT_VALIDITY.as_secs() / DAY)]
    Validity {
        /// What was asked for.
        given: Duration,
    },
    /// A certificate that this authority did not issue, or that lacks an agent or a node.
    #[error("{} cannot be renewed: {why}; issue a new one with `hermes-peer certs issue`", path.display())]
    NotRenewable {
        /// The certificate's file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// No serial number.
    #[error(
        "`{given}` is no serial number: 1 to 40 hexadecimal digits, as `hermes-peer certs show` prints them"
    )]
    Serial {
        /// What was given.
        given: String,
    },
    /// The list is full.
    #[error("the revocation list is full ({most} certificates); make a new authority")]
    ListFull {
        /// How many it takes.
        most: usize,
    },
    /// The data folder of this user is not known.
    #[error("there is no home folder to keep the development authority in; set HERMES_PEER_HOME")]
    NoHome,
    /// The cryptographic library refused.
    #[error("no certificate can be made: {0}")]
    Crypto(#[from] rcgen::Error),
}
