//! What stands in for a handler in which something is wrong. It has every name that other code may use, so that the
//! compiler shows the author's mistake and not what follows from it.

use proc_macro2::TokenStream;
use quote::ToTokens;
use quote::quote;
use syn::FnArg;
use syn::ItemFn;
use syn::LitStr;

use crate::expand;

/// The function, kept whole, under the names that it would have had.
pub(crate) fn handler(function: &ItemFn) -> TokenStream {
    // A method stands in an `impl`, where no struct can.
    if function.sig.inputs.iter().any(|argument| matches!(argument, FnArg::Receiver(_))) {
        return function.to_token_stream();
    }
    let name = &function.sig.ident;
    let named = expand::named(function, &LitStr::new("No capability yet.", name.span()));
    let run = expand::run(function);
    let everywhere = expand::attributes(function, expand::is_for_all);
    quote! {
        #named
        #[allow(dead_code, reason = "nothing calls a handler that could not be made")]
        #run
        #(#everywhere)*
        impl ::hermes_peer::Capability for #name {
            fn info(&self) -> ::hermes_peer::CapabilityInfo {
                ::core::unreachable!()
            }
            fn handle(
                &self,
                _: ::hermes_peer::Request,
                _: ::hermes_peer::Context,
            ) -> ::hermes_peer::HandlerFuture {
                ::core::unreachable!()
            }
        }
    }
}
