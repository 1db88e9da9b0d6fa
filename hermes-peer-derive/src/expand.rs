//! Tokens out: one function per generated item.

use proc_macro2::Literal;
use proc_macro2::TokenStream;
use quote::format_ident;
use quote::quote;
use quote::quote_spanned;
use syn::Attribute;
use syn::ItemFn;
use syn::LitStr;
use syn::Type;

use crate::attr::Attrs;
use crate::model::Handler;
use crate::model::Parameter;

/// What the handler's name stands for, the handler itself, and the capability that it is.
pub(crate) fn handler(handler: &Handler) -> TokenStream {
    let named = named(&handler.function, &handler.description);
    let run = run(&handler.function);
    let capability = capability(handler);
    quote! { #named #run #capability }
}

/// The function's name as a type, and as a function that makes its one value. A unit struct would be both, but no
/// variable could have its name; a function's name they can take.
pub(crate) fn named(function: &ItemFn, description: &LitStr) -> TokenStream {
    let name = &function.sig.ident;
    let visibility = &function.vis;
    let everywhere: Vec<_> = attributes(function, is_for_all).collect();
    let docs: Vec<_> = attributes(function, |attribute| attribute.path().is_ident("doc")).collect();
    // A public item without documentation would be a lint's warning in code that the author did not write.
    let described = docs.is_empty().then(|| quote! { #[doc = #description] });
    quote! {
        #(#docs)* #described #(#everywhere)*
        #[allow(non_camel_case_types, clippy::empty_structs_with_brackets, clippy::exhaustive_structs)]
        #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug)]
        #visibility struct #name {}

        #[doc(hidden)]
        #(#everywhere)*
        #[allow(clippy::must_use_candidate)]
        #visibility const fn #name() -> #name {
            #name {}
        }
    }
}

/// The function, whole, as `run`.
pub(crate) fn run(function: &ItemFn) -> TokenStream {
    let name = &function.sig.ident;
    let visibility = &function.vis;
    let block = &function.block;
    let mut signature = function.sig.clone();
    signature.ident = format_ident!("run", span = name.span());
    let everywhere = attributes(function, is_for_all);
    // The lints are those that the author cannot heed: a handler is always async, and its page is the struct's.
    let own = attributes(function, |attribute| !attribute.path().is_ident("doc") && !is_for_all(attribute));
    quote! {
        #(#everywhere)*
        impl #name {
            #[doc = "The handler as a plain function, as unit tests call it."]
            #[allow(clippy::unused_async, clippy::missing_errors_doc, clippy::missing_panics_doc)]
            #(#own)*
            #visibility #signature #block
        }
    }
}

/// What holds for the function must hold for every item made of it: a `cfg` that removes one removes all.
pub(crate) fn is_for_all(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg") || attribute.path().is_ident("allow")
}

pub(crate) fn attributes(
    function: &ItemFn,
    is_wanted: fn(&Attribute) -> bool,
) -> impl Iterator<Item = &Attribute> {
    function.attrs.iter().filter(move |attribute| is_wanted(attribute))
}

fn capability(handler: &Handler) -> TokenStream {
    let name = &handler.function.sig.ident;
    let everywhere = attributes(&handler.function, is_for_all);
    let info = info(handler);
    let limits = limits(&handler.attrs);
    let handle = handle(handler);
    quote! {
        #(#everywhere)*
        impl ::hermes_peer::Capability for #name {
            #info
            #limits
            #handle
        }
    }
}

fn info(handler: &Handler) -> TokenStream {
    let Handler { name, description, .. } = handler;
    let output = &handler.returned.output;
    let input = handler.input().map_or_else(|| schema(&unit_type()), schema);
    let item = handler.item().map(|item| {
        let schema = schema(item);
        quote! { __info.item_schema = ::core::option::Option::Some(#schema); }
    });
    let given = given(&handler.attrs);
    quote! {
        fn info(&self) -> ::hermes_peer::CapabilityInfo {
            let mut __info = ::hermes_peer::__private::info(#name);
            __info.description = ::std::string::String::from(#description);
            __info.input_schema = #input;
            __info.output_schema = <#output as ::hermes_peer::__private::Output>::schema();
            __info.streams = <#output as ::hermes_peer::__private::Output>::STREAMS;
            #item
            #given
            __info
        }
    }
}

fn schema(ty: &Type) -> TokenStream {
    quote! { ::hermes_peer::__private::schema::<#ty>() }
}

/// The input of a handler that takes none.
fn unit_type() -> Type {
    syn::parse_quote!(())
}

/// The fields that the attribute sets; the others keep the defaults of `CapabilityInfo`.
fn given(attrs: &Attrs) -> TokenStream {
    let facts = [&attrs.idempotent, &attrs.read_only, &attrs.destructive, &attrs.reentrant];
    let facts = facts.into_iter().flatten().map(|fact| quote! { __info.facts.#fact = true; });
    let cost = attrs.cost.map(Literal::u64_unsuffixed).map(|cost| quote! { __info.cost = #cost; });
    let weight = attrs.weight.map(Literal::u64_unsuffixed).map(|weight| quote! { __info.weight = #weight; });
    let access =
        attrs.access.as_ref().map(|access| quote! { __info.access = ::hermes_peer::Access::#access; });
    let version = attrs.version.map(|[major, minor, patch]| {
        quote! { __info.version = ::hermes_peer::__private::version(#major, #minor, #patch); }
    });
    let slots = [("reads", &attrs.reads), ("writes", &attrs.writes)];
    let slots = slots.into_iter().filter(|(_, slots)| !slots.is_empty()).map(|(field, slots)| {
        let field = format_ident!("{field}");
        quote! { __info.#field = ::hermes_peer::__private::slots(&[#(#slots),*]); }
    });
    quote! { #(#facts)* #cost #weight #access #version #(#slots)* }
}

fn limits(attrs: &Attrs) -> Option<TokenStream> {
    if attrs.concurrency.is_none() && attrs.queue.is_none() {
        return None;
    }
    let option = |number: Option<u64>| match number.map(Literal::u64_unsuffixed) {
        Some(number) => quote! { ::core::option::Option::Some(#number) },
        None => quote! { ::core::option::Option::None },
    };
    let (concurrency, queue) = (option(attrs.concurrency), option(attrs.queue));
    Some(quote! {
        fn limits(&self) -> ::hermes_peer::HandlerLimits {
            ::hermes_peer::__private::limits(#concurrency, #queue)
        }
    })
}

/// The names of its own begin with underscores: the module may have a constant of any other, which nothing can shadow.
fn handle(handler: &Handler) -> TokenStream {
    let name = &handler.function.sig.ident;
    let output = &handler.returned.output;
    let items = handler.item().map(|item| quote! { let __items = __request.take_items::<#item>(); });
    let mutable = items.as_ref().map(|_| quote! { mut });
    let input = handler.input().map(|input| quote! { let __input = __request.input::<#input>()?; });
    let arguments = handler.parameters.iter().map(|parameter| match parameter {
        Parameter::Context => quote! { __context },
        Parameter::Incoming(_) => quote! { __items },
        Parameter::Input(_) => quote! { __input },
    });
    // Spanned there, so that an error type that is no `Failure` is reported where it is written.
    let result = quote_spanned! { handler.returned.failure=> #name::run(#(#arguments),*).await? };
    quote! {
        fn handle(
            &self,
            #mutable __request: ::hermes_peer::Request,
            __context: ::hermes_peer::Context,
        ) -> ::hermes_peer::HandlerFuture {
            ::std::boxed::Box::pin(async move {
                #items
                #input
                let __output = #result;
                <#output as ::hermes_peer::__private::Output>::into_reply(__output)
            })
        }
    }
}
