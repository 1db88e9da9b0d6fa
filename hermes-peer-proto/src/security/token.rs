//! Shared secrets, several valid at once so that they can be changed without a gap.

use aws_lc_rs::digest::Context;
use aws_lc_rs::digest::SHA256;

use super::secret::Secret;
use crate::wire::TokenId;

/// Shortest token, in bytes: 128 bits, if they are random. Whoever reaches the port can test guesses offline, so a token
/// is made by a machine, not thought up.
pub const MIN_TOKEN_LEN: usize = 16;
/// Longest token, in bytes: far above any key; a larger file is not a token file.
pub const MAX_TOKEN_LEN: usize = 4096;
/// Most tokens valid at once: a change needs two, a change within a change three.
pub const MAX_TOKENS: usize = 16;

const ID_LABEL: &[u8] = b"hermes-peer token id";
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One shared secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    id: TokenId,
    secret: Secret<Vec<u8>>,
}

/// A token or set of tokens that is refused. It says how long, never what.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// Nothing there.
    #[error("the token is empty")]
    Empty,
    /// Easy to guess.
    #[error(
        "the token has {len} bytes, at least {MIN_TOKEN_LEN} are needed: make one with `openssl rand -hex 32`"
    )]
    TooShort {
        /// Its length without the line end, in bytes.
        len: usize,
    },
    /// Probably another file.
    #[error("the token has {len} bytes, at most {MAX_TOKEN_LEN} are taken: is this the right file?")]
    TooLong {
        /// Its length without the line end, in bytes.
        len: usize,
    },
    /// No token at all.
    #[error("no token is given, at least one is needed")]
    NoTokens,
    /// More than [`MAX_TOKENS`].
    #[error("{count} tokens are given, at most {MAX_TOKENS} are taken")]
    TooMany {
        /// How many.
        count: usize,
    },
    /// The same one twice.
    #[error("token {id} is given twice")]
    Twice {
        /// Its id.
        id: TokenId,
    },
}

impl Token {
    /// Reads a token as it stands in a file or in the environment. A UTF-8 byte order mark and one line end (LF or CRLF),
    /// which editors and `echo` add, are no part of it; every other byte is.
    ///
    /// # Errors
    /// [`TokenError`] if it is empty, under [`MIN_TOKEN_LEN`] or over [`MAX_TOKEN_LEN`] bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, TokenError> {
        let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\n").map_or(bytes, |line| line.strip_suffix(b"\r").unwrap_or(line));
        match bytes.len() {
            0 => Err(TokenError::Empty),
            len if len < MIN_TOKEN_LEN => Err(TokenError::TooShort { len }),
            len if len > MAX_TOKEN_LEN => Err(TokenError::TooLong { len }),
            _ => Ok(Self { id: fingerprint(bytes), secret: Secret::new(bytes.to_vec()) }),
        }
    }

    /// Names the token without giving it away.
    pub fn id(&self) -> TokenId {
        self.id
    }

    pub(crate) fn expose(&self) -> &[u8] {
        self.secret.expose()
    }
}

fn fingerprint(token: &[u8]) -> TokenId {
    let mut context = Context::new(&SHA256);
    context.update(ID_LABEL);
    context.update(token);
    let digest = context.finish();
    TokenId(*digest.as_ref().first_chunk().expect("SHA-256 has 32 bytes"))
}

/// The tokens that are valid now. The first is the one that this node would rather use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSet(Vec<Token>);

impl TokenSet {
    /// From tokens in the order in which they are offered.
    ///
    /// # Errors
    /// [`TokenError`] if there is none, more than [`MAX_TOKENS`], or one twice.
    pub fn new(tokens: Vec<Token>) -> Result<Self, TokenError> {
        match tokens.len() {
            0 => return Err(TokenError::NoTokens),
            count if count > MAX_TOKENS => return Err(TokenError::TooMany { count }),
            _ => {}
        }
        for (index, token) in tokens.iter().enumerate() {
            if tokens[..index].iter().any(|earlier| earlier.id == token.id) {
                return Err(TokenError::Twice { id: token.id });
            }
        }
        Ok(Self(tokens))
    }

    /// The ids, in order.
    pub fn ids(&self) -> impl Iterator<Item = TokenId> + '_ {
        self.0.iter().map(Token::id)
    }

    /// The token of this id.
    pub fn get(&self, id: TokenId) -> Option<&Token> {
        self.0.iter().find(|token| token.id == id)
    }

    /// The first of these tokens whose id the other side lists.
    pub fn choose(&self, offered: &[TokenId]) -> Option<&Token> {
        self.0.iter().find(|token| offered.contains(&token.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &[u8] = b"abc:def=ghi/+jkl";

    fn id(bytes: &[u8]) -> TokenId {
        Token::parse(bytes).unwrap().id()
    }

    #[test]
    fn one_line_end_and_a_byte_order_mark_are_no_part_of_a_token() {
        // FC-026
        let bare = id(GOOD);
        for (before, after, is_same) in [
            ("", "\n", true),
            ("", "\r\n", true),
            ("\u{feff}", "", true),
            ("\u{feff}", "\r\n", true),
            ("", "\n\n", false),
            ("", "\r", false),
            (" ", "", false),
            ("", " \n", false),
            ("", "\t", false),
        ] {
            let given = [before.as_bytes(), GOOD, after.as_bytes()].concat();
            assert_eq!(id(&given) == bare, is_same, "{before:?} {after:?}");
        }
    }

    #[test]
    fn too_short_and_too_long_tokens_are_refused() {
        // FC-026
        let refused = |bytes: &[u8]| Token::parse(bytes).unwrap_err();
        assert_eq!(refused(b""), TokenError::Empty);
        assert_eq!(refused(b"\r\n"), TokenError::Empty);
        assert_eq!(refused(b"abc"), TokenError::TooShort { len: 3 });
        assert_eq!(refused(&[b'a'; 15]), TokenError::TooShort { len: 15 });
        assert_eq!(refused(b"fifteen-bytes-x\n"), TokenError::TooShort { len: 15 });
        assert!(Token::parse(&[b'a'; 4096]).is_ok());
        assert_eq!(refused(&vec![b'a'; 65_536]), TokenError::TooLong { len: 65_536 });
    }

    #[test]
    fn a_set_is_not_empty_not_endless_and_holds_no_token_twice() {
        let token = |n: usize| Token::parse(format!("{n:016}").as_bytes()).unwrap();
        let refused = |tokens| TokenSet::new(tokens).unwrap_err();
        assert_eq!(refused(vec![]), TokenError::NoTokens);
        assert_eq!(refused((0..17).map(token).collect()), TokenError::TooMany { count: 17 });
        assert_eq!(refused(vec![token(1), token(2), token(1)]), TokenError::Twice { id: token(1).id() });
    }

    #[test]
    fn the_first_own_token_that_the_other_lists_is_chosen() {
        let [first, second, third] = [b"aaaaaaaaaaaaaaaa", b"bbbbbbbbbbbbbbbb", b"cccccccccccccccc"]
            .map(|bytes| Token::parse(bytes).unwrap());
        let set = TokenSet::new(vec![first.clone(), second.clone()]).unwrap();
        let chosen = |offered: &[TokenId]| set.choose(offered).map(Token::id);
        assert_eq!(chosen(&[third.id(), second.id(), first.id()]), Some(first.id()));
        assert_eq!(chosen(&[third.id(), second.id()]), Some(second.id()));
        assert_eq!(chosen(&[third.id()]), None);
    }

    #[test]
    fn no_text_of_a_token_shows_its_bytes() {
        // FC-079
        let token = Token::parse(GOOD).unwrap();
        let set = TokenSet::new(vec![token.clone(), token.clone()]).unwrap_err();
        let texts = format!("{token:?} {token:#?} {set} {set:?} {:?}", Token::parse(&GOOD[..15]));
        for piece in GOOD.windows(4) {
            assert!(!texts.contains(std::str::from_utf8(piece).unwrap()), "{texts}");
        }
        let as_list = GOOD.iter().take(4).map(u8::to_string).collect::<Vec<_>>().join(", ");
        assert!(!texts.contains(&as_list), "{texts}");
    }
}
