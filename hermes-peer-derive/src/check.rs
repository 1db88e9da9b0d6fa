//! What must hold for a handler as a whole. Every rule is tried, so that every breach is reported at once.

use proc_macro2::TokenStream;
use proc_macro2::TokenTree;
use quote::ToTokens;
use syn::FnArg;
use syn::ItemFn;
use syn::LitStr;
use syn::PatType;
use syn::ReturnType;
use syn::Safety;
use syn::Type;

use crate::attr::Attrs;
use crate::diag::Diag;
use crate::model::Handler;
use crate::model::Parameter;
use crate::model::Returned;
use crate::model::doc_text;

/// Longest capability name in bytes, as in `hermes_peer::CapabilityName`.
const MAX_NAME: usize = 128;

/// The handler, unless a part of it is missing or cannot be understood. Whether it may be used is for `diag` to say.
pub(crate) fn check(attrs: Attrs, function: &ItemFn, diag: &mut Diag) -> Option<Handler> {
    if let Some(name) = &attrs.name {
        check_name(name, diag);
    }
    check_facts(&attrs, diag);
    check_signature(function, diag);
    let parameters = check_parameters(function, diag);
    let returned = check_output(function, diag);
    let description = check_description(&attrs, function, diag);
    Some(Handler {
        name: attrs.name.clone()?,
        description: description?,
        returned: returned?,
        function: function.clone(),
        parameters,
        attrs,
    })
}

fn check_name(name: &LitStr, diag: &mut Diag) {
    let given = name.value();
    if given.len() > MAX_NAME {
        let message = format!(
            "a capability's name has {MAX_NAME} bytes at most, this one has {}: shorten it",
            given.len()
        );
        diag.error(name, message);
    } else if !is_name(&given) {
        let meant = given.to_lowercase().replace(['-', ' '], "_").replace(['/', ':'], ".");
        let hint = if is_name(&meant) { format!(": did you mean \"{meant}\"?") } else { String::new() };
        let rule = "a capability is named `domain.action`, two or more words of a-z, 0-9 and `_` joined by dots, like \"text.echo\"";
        diag.error(name, format!("{rule}{hint}"));
    }
}

fn is_name(name: &str) -> bool {
    let is_allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    name.contains('.') && name.split('.').all(|word| !word.is_empty() && word.bytes().all(is_allowed))
}

fn check_facts(attrs: &Attrs, diag: &mut Diag) {
    let Some(read_only) = &attrs.read_only else { return };
    if attrs.destructive.is_some() {
        diag.error(
            read_only,
            "what is `read_only` changes nothing and cannot be `destructive`: drop one of the two",
        );
    }
    if !attrs.writes.is_empty() {
        diag.error(
            read_only,
            "what is `read_only` changes nothing, slots included: drop `read_only` or `writes`",
        );
    }
}

fn check_signature(function: &ItemFn, diag: &mut Diag) {
    let signature = &function.sig;
    if signature.asyncness.is_none() {
        let message = format!("a handler is an `async fn`: write `async fn {}`", signature.ident);
        diag.error(signature.fn_token, message);
    }
    if let Safety::Unsafe(keyword) = &signature.safety {
        diag.error(
            keyword,
            "a handler cannot be `unsafe`: nobody who calls it over the mesh can keep its promises",
        );
    }
    if let Some(abi) = &signature.abi {
        diag.error(abi, "a handler is a Rust function: drop the `extern`");
    }
    if !signature.generics.params.is_empty() {
        diag.error(
            &signature.generics.params,
            "a handler has no generic parameters, because its schemas are those of certain types: name the types",
        );
    }
}

fn check_parameters(function: &ItemFn, diag: &mut Diag) -> Vec<Parameter> {
    let mut parameters = Vec::new();
    for argument in &function.sig.inputs {
        match argument {
            FnArg::Receiver(receiver) => diag.error(
                receiver,
                "a handler is a free function without `self`: share what it needs by `.state(…)` on the node and take it from `Context::state`",
            ),
            FnArg::Typed(typed) => parameters.extend(check_parameter(typed, &parameters, diag)),
        }
    }
    parameters
}

/// The parameter, if it is one that may stand after those before it.
fn check_parameter(typed: &PatType, before: &[Parameter], diag: &mut Diag) -> Option<Parameter> {
    let ty = &*typed.ty;
    if let Type::Reference(reference) = ty {
        let owned = reference.elem.to_token_stream();
        let remedy = if owned.to_string() == "str" { "String".to_owned() } else { owned.to_string() };
        diag.error(
            ty,
            format!(
                "a handler owns what it is given, because it outlives the message: take `{remedy}` by value"
            ),
        );
        return None;
    }
    refuse_impl(ty, diag);
    let Some(parameter) = Parameter::read(ty) else {
        diag.error(ty, "`Incoming` says what streams in: write `Incoming<Item>`");
        return None;
    };
    let message = match parameter {
        Parameter::Context => "a handler has one context: drop this one",
        Parameter::Incoming(_) => {
            "a handler has one stream of items coming in: make the items an enum of both kinds"
        }
        Parameter::Input(_) => "a handler has one input: put both into one struct, whose fields callers name",
    };
    let is_same = |other: &Parameter| std::mem::discriminant(other) == std::mem::discriminant(&parameter);
    if before.iter().any(is_same) {
        diag.error(ty, message);
    }
    Some(parameter)
}

fn check_output(function: &ItemFn, diag: &mut Diag) -> Option<Returned> {
    const REMEDY: &str = "a handler returns a `Result`: write `-> Result<Output, Failure>`";
    let ReturnType::Type(_, ty) = &function.sig.output else {
        diag.error(&function.sig.ident, REMEDY);
        return None;
    };
    let returned = Returned::read(ty);
    match &returned {
        None => diag.error(ty, REMEDY),
        Some(returned) => refuse_impl(&returned.output, diag),
    }
    returned
}

/// `impl Trait` cannot be named, and a schema needs a type with a name.
fn refuse_impl(ty: &Type, diag: &mut Diag) {
    if has_impl(ty.to_token_stream()) {
        diag.error(
            ty,
            "a schema needs a type with a name, not `impl Trait`: name the type; a stream is `Items<T>`",
        );
    }
}

fn has_impl(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == "impl",
        TokenTree::Group(group) => has_impl(group.stream()),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

fn check_description(attrs: &Attrs, function: &ItemFn, diag: &mut Diag) -> Option<LitStr> {
    let description = attrs.description.clone().or_else(|| doc_text(&function.attrs));
    if description.is_none() {
        diag.error(
            &function.sig.ident,
            "a capability needs a description, because people and models choose by it: write a doc comment, such as `/// Finds passages.`, or `description = \"…\"`",
        );
    }
    description
}
