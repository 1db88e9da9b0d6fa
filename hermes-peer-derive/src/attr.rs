//! What stands in the parentheses of `#[capability(…)]`: tokens in, [`Attrs`] out.

use std::ops::RangeInclusive;

use proc_macro2::Span;
use proc_macro2::TokenStream;
use proc_macro2::TokenTree;
use syn::Expr;
use syn::Ident;
use syn::Lit;
use syn::LitStr;
use syn::Token;
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::parse::Parser;

use crate::diag::Diag;
use crate::nearest::nearest;

/// Every key, with an example of its use.
const KEYS: [(&str, &str); 13] = [
    ("version", "version = \"1.2.0\""),
    ("description", "description = \"Finds passages.\""),
    ("idempotent", "idempotent"),
    ("read_only", "read_only"),
    ("destructive", "destructive"),
    ("reentrant", "reentrant"),
    ("cost", "cost = 2"),
    ("access", "access = \"restricted\""),
    ("reads", "reads = [\"intent\"]"),
    ("writes", "writes = [\"passages\"]"),
    ("weight", "weight = 70"),
    ("concurrency", "concurrency = 8"),
    ("queue", "queue = 16"),
];

/// What `access` may be, and the variant of `hermes_peer::Access` that it means.
const ACCESS: [(&str, &str); 3] = [("public", "Public"), ("restricted", "Restricted"), ("admin", "Admin")];

/// Longest slot name in bytes, as in `hermes_peer::SlotName`.
const MAX_SLOT: usize = 63;

/// What the author wrote, each value within its own limits. What must hold between them is for `check`.
#[derive(Debug, Default)]
pub(crate) struct Attrs {
    pub(crate) name: Option<LitStr>,
    pub(crate) version: Option<[u32; 3]>,
    pub(crate) description: Option<LitStr>,
    pub(crate) idempotent: Option<Ident>,
    pub(crate) read_only: Option<Ident>,
    pub(crate) destructive: Option<Ident>,
    pub(crate) reentrant: Option<Ident>,
    pub(crate) cost: Option<u64>,
    /// The variant of `hermes_peer::Access`.
    pub(crate) access: Option<Ident>,
    pub(crate) reads: Vec<LitStr>,
    pub(crate) writes: Vec<LitStr>,
    pub(crate) weight: Option<u64>,
    pub(crate) concurrency: Option<u64>,
    pub(crate) queue: Option<u64>,
}

/// Reads all of `args`; what cannot be read is noted and left out.
pub(crate) fn parse(args: TokenStream, diag: &mut Diag) -> Attrs {
    let mut attrs = Attrs::default();
    let parsed = (|input: ParseStream<'_>| parse_list(input, &mut attrs, diag)).parse2(args);
    if let Err(error) = parsed {
        diag.push(error);
    }
    attrs
}

fn parse_list(input: ParseStream<'_>, attrs: &mut Attrs, diag: &mut Diag) -> syn::Result<()> {
    if !input.peek(Lit) {
        let at = if input.is_empty() { Span::call_site() } else { input.span() };
        let message = "the capability's name comes first: `#[capability(\"domain.action\", …)]`";
        diag.push(syn::Error::new(at, message));
    }
    let mut given = Vec::new();
    let mut is_first = true;
    while !input.is_empty() {
        let item = parse_item(input, attrs, &mut given, is_first, diag);
        is_first = false;
        if let Err(error) = item {
            diag.push(error);
            skip_to_comma(input)?;
        } else if !input.is_empty() && !input.peek(Token![,]) {
            diag.push(input.error("a comma is missing before this"));
            skip_to_comma(input)?;
        }
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
    }
    Ok(())
}

/// One item up to its comma: the name, a flag, or `key = value`.
fn parse_item(
    input: ParseStream<'_>,
    attrs: &mut Attrs,
    given: &mut Vec<Ident>,
    is_first: bool,
    diag: &mut Diag,
) -> syn::Result<()> {
    if input.peek(Lit) {
        let literal: Lit = input.parse()?;
        return match literal {
            Lit::Str(name) if is_first => {
                attrs.name = Some(name);
                Ok(())
            }
            other if is_first => {
                Err(syn::Error::new_spanned(other, "a capability's name is a text, like \"text.echo\""))
            }
            other => Err(syn::Error::new_spanned(
                other,
                "a value needs its key: write `key = value`; only the name, which comes first, has none",
            )),
        };
    }
    if !input.peek(Ident::peek_any) {
        return Err(input.error("a key is expected here, such as `idempotent` or `cost = 2`"));
    }
    let key = input.call(Ident::parse_any)?;
    let value = if input.peek(Token![=]) {
        input.parse::<Token![=]>()?;
        Some(input.parse::<Expr>()?)
    } else {
        None
    };
    if given.contains(&key) {
        return Err(syn::Error::new_spanned(&key, format!("`{key}` is given twice: keep one")));
    }
    given.push(key.clone());
    set(attrs, key, value, diag)
}

fn skip_to_comma(input: ParseStream<'_>) -> syn::Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<TokenTree>()?;
    }
    Ok(())
}

fn set(attrs: &mut Attrs, key: Ident, value: Option<Expr>, diag: &mut Diag) -> syn::Result<()> {
    match key.to_string().as_str() {
        "idempotent" => attrs.idempotent = Some(flag(key, value)?),
        "read_only" => attrs.read_only = Some(flag(key, value)?),
        "destructive" => attrs.destructive = Some(flag(key, value)?),
        "reentrant" => attrs.reentrant = Some(flag(key, value)?),
        "version" => attrs.version = Some(version(&key, value)?),
        "description" => attrs.description = Some(description(&key, value)?),
        "access" => attrs.access = Some(access(&key, value)?),
        "cost" => attrs.cost = Some(number(&key, value, 0..=10)?),
        "weight" => attrs.weight = Some(number(&key, value, 1..=1000)?),
        // A handler that may never run would answer nobody.
        "concurrency" => attrs.concurrency = Some(number(&key, value, 1..=u32::MAX.into())?),
        "queue" => attrs.queue = Some(number(&key, value, 0..=u32::MAX.into())?),
        "reads" => attrs.reads = slots(&key, value, diag)?,
        "writes" => attrs.writes = slots(&key, value, diag)?,
        unknown => {
            let names = KEYS.map(|(name, _)| name);
            let remedy = match nearest(unknown, &names) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the keys are {}", names.map(|name| format!("`{name}`")).join(", ")),
            };
            return Err(syn::Error::new_spanned(&key, format!("there is no key `{unknown}`: {remedy}")));
        }
    }
    Ok(())
}

fn flag(key: Ident, value: Option<Expr>) -> syn::Result<Ident> {
    match value {
        None => Ok(key),
        Some(value) => Err(syn::Error::new_spanned(
            value,
            format!("`{key}` takes no value: write `{key}` alone if it holds, and leave it out if not"),
        )),
    }
}

/// The value of a key that needs one, out of the invisible groups in which `macro_rules` wraps what it passes on.
fn given(key: &Ident, value: Option<Expr>) -> syn::Result<Expr> {
    let mut value = value.ok_or_else(|| {
        let example = KEYS.iter().find(|(name, _)| key == name).map_or("", |(_, example)| example);
        syn::Error::new_spanned(key, format!("`{key}` needs a value, such as `{example}`"))
    })?;
    while let Expr::Group(group) = value {
        value = *group.expr;
    }
    Ok(value)
}

fn text(key: &Ident, value: Option<Expr>, kind: &str) -> syn::Result<LitStr> {
    match given(key, value)? {
        Expr::Lit(syn::ExprLit { lit: Lit::Str(text), .. }) => Ok(text),
        other => Err(syn::Error::new_spanned(other, format!("`{key}` is {kind}"))),
    }
}

fn description(key: &Ident, value: Option<Expr>) -> syn::Result<LitStr> {
    let text = text(key, value, "a text in quotes")?;
    if text.value().trim().is_empty() {
        let message = "an empty description helps nobody to choose: say what the capability does";
        return Err(syn::Error::new_spanned(text, message));
    }
    Ok(text)
}

fn version(key: &Ident, value: Option<Expr>) -> syn::Result<[u32; 3]> {
    const KIND: &str = "three numbers joined by dots, such as \"1.2.0\"";
    let text = text(key, value, KIND)?;
    // Printed again, so that `+1` and `01`, which the standard library reads, are refused.
    let numbers: Option<Vec<u32>> = text
        .value()
        .split('.')
        .map(|part| part.parse().ok().filter(|number: &u32| number.to_string() == part))
        .collect();
    numbers
        .and_then(|numbers| numbers.try_into().ok())
        .ok_or_else(|| syn::Error::new_spanned(&text, format!("`{key}` is {KIND}, not \"{}\"", text.value())))
}

fn access(key: &Ident, value: Option<Expr>) -> syn::Result<Ident> {
    const KIND: &str = "one of \"public\", \"restricted\" and \"admin\"";
    let text = text(key, value, KIND)?;
    let variant = ACCESS.iter().find(|(word, _)| *word == text.value());
    variant
        .map(|(_, variant)| Ident::new(variant, Span::call_site()))
        .ok_or_else(|| syn::Error::new_spanned(&text, format!("`{key}` is {KIND}, not \"{}\"", text.value())))
}

fn number(key: &Ident, value: Option<Expr>, range: RangeInclusive<u64>) -> syn::Result<u64> {
    let value = given(key, value)?;
    let number = match &value {
        Expr::Lit(syn::ExprLit { lit: Lit::Int(number), .. }) => number.base10_parse().ok(),
        _ => None,
    };
    number.filter(|number| range.contains(number)).ok_or_else(|| {
        let message = format!("`{key}` is a whole number from {} to {}", range.start(), range.end());
        syn::Error::new_spanned(value, message)
    })
}

fn slots(key: &Ident, value: Option<Expr>, diag: &mut Diag) -> syn::Result<Vec<LitStr>> {
    let value = given(key, value)?;
    let Expr::Array(array) = value else {
        let message = format!("`{key}` is a list of slots, such as `{key} = [\"intent\"]`");
        return Err(syn::Error::new_spanned(value, message));
    };
    let mut slots: Vec<LitStr> = Vec::new();
    for element in array.elems {
        match text(key, Some(element), "a list of slots, each a text in quotes") {
            Err(error) => diag.push(error),
            Ok(slot) if !is_slot(&slot.value()) => diag.error(
                slot,
                "a slot is named by 1 to 63 bytes of a-z, 0-9, `.`, `_` and `-`, like \"intent\"",
            ),
            Ok(slot) if slots.contains(&slot) => {
                diag.error(&slot, format!("slot \"{}\" is listed twice: keep one", slot.value()));
            }
            Ok(slot) => slots.push(slot),
        }
    }
    Ok(slots)
}

fn is_slot(name: &str) -> bool {
    let is_allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-');
    (1..=MAX_SLOT).contains(&name.len()) && name.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests;
