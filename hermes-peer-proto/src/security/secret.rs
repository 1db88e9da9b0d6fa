//! Bytes that are wiped when they go and never printed.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroize;
use zeroize::Zeroizing;

use crate::wire::SECRET_LEN;

/// Secret bytes: overwritten when dropped, printed as nothing, compared in a time that does not depend on them.
#[derive(Clone)]
pub struct Secret<T: Zeroize>(Zeroizing<T>);

/// What both ends of a link, and nobody else, derive from its handshake. It proves a resume.
pub type LinkSecret = Secret<[u8; SECRET_LEN]>;

impl<T: Zeroize> Secret<T> {
    /// Takes the bytes over. Copies that the caller keeps are the caller's to wipe.
    pub fn new(bytes: T) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes. Named so that a reader stops here.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl<T: Zeroize + AsRef<[u8]>> PartialEq for Secret<T> {
    fn eq(&self, other: &Self) -> bool {
        let (this, other): (&T, &T) = (&self.0, &other.0);
        this.as_ref().ct_eq(other.as_ref()).into()
    }
}

impl<T: Zeroize + AsRef<[u8]>> Eq for Secret<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_prints_nothing_of_itself() {
        // FC-079
        let secret = LinkSecret::new([0x41; SECRET_LEN]);
        assert_eq!(format!("{secret:?} {secret:#?}"), "Secret Secret");
        assert_eq!(secret, LinkSecret::new([0x41; SECRET_LEN]));
        assert_ne!(secret, LinkSecret::new([0x42; SECRET_LEN]));
        assert_ne!(Secret::new(vec![1]), Secret::new(vec![1, 2]));
    }
}
