//! Errors are collected, so that one compiler run shows everything that is wrong.

use std::fmt::Display;

use proc_macro2::Span;
use proc_macro2::TokenStream;
use quote::ToTokens;

/// What was found wrong so far. The only way to a result is [`Diag::finish`], which refuses it if anything was.
#[must_use = "what was found wrong is lost unless `finish` is called"]
#[derive(Debug, Default)]
pub(crate) struct Diag {
    errors: Vec<syn::Error>,
}

impl Diag {
    /// Notes an error that the compiler shows under `at`.
    pub(crate) fn error(&mut self, at: impl ToTokens, message: impl Display) {
        self.push(syn::Error::new_spanned(at, message));
    }

    pub(crate) fn push(&mut self, error: syn::Error) {
        self.errors.push(error);
    }

    /// What was made, if nothing was wrong; otherwise the tokens that make the compiler show every error.
    pub(crate) fn finish<T>(mut self, made: Option<T>) -> Result<T, TokenStream> {
        if made.is_none() && self.errors.is_empty() {
            let message = "#[capability] refused this without a reason: please report it";
            self.push(syn::Error::new(Span::call_site(), message));
        }
        match made {
            Some(made) if self.errors.is_empty() => Ok(made),
            _ => Err(self.errors.iter().map(syn::Error::to_compile_error).collect()),
        }
    }

    #[cfg(test)]
    pub(crate) fn messages(&self) -> Vec<String> {
        self.errors.iter().map(ToString::to_string).collect()
    }
}
