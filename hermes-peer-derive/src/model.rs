//! A handler as it was understood: function, attributes and what follows from both.

use proc_macro2::Span;
use syn::Attribute;
use syn::Expr;
use syn::ExprLit;
use syn::GenericArgument;
use syn::ItemFn;
use syn::Lit;
use syn::LitStr;
use syn::Meta;
use syn::PathArguments;
use syn::PathSegment;
use syn::Type;
use syn::spanned::Spanned;

use crate::attr::Attrs;

/// A handler in which everything is right. Only `check` makes one.
#[derive(Debug)]
pub(crate) struct Handler {
    pub(crate) attrs: Attrs,
    pub(crate) function: ItemFn,
    pub(crate) name: LitStr,
    pub(crate) description: LitStr,
    /// In the order of the function's own.
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) returned: Returned,
}

impl Handler {
    /// The type of the input, if it takes one.
    pub(crate) fn input(&self) -> Option<&Type> {
        self.parameters.iter().find_map(|parameter| match parameter {
            Parameter::Input(input) => Some(input),
            Parameter::Incoming(_) | Parameter::Context => None,
        })
    }

    /// The type of the items that stream in, if any do.
    pub(crate) fn item(&self) -> Option<&Type> {
        self.parameters.iter().find_map(|parameter| match parameter {
            Parameter::Incoming(item) => Some(item),
            Parameter::Input(_) | Parameter::Context => None,
        })
    }
}

/// What a parameter is for, told by the last word of its type.
#[derive(Debug)]
pub(crate) enum Parameter {
    /// `Context`: who calls, in which session, how much time is left.
    Context,
    /// `Incoming<I>`, with its `I`.
    Incoming(Type),
    /// Anything else.
    Input(Type),
}

impl Parameter {
    /// None if it is an `Incoming` of nothing.
    pub(crate) fn read(ty: &Type) -> Option<Self> {
        match last_segment(ty) {
            Some(segment) if segment.ident == "Context" => Some(Self::Context),
            Some(segment) if segment.ident == "Incoming" => {
                type_arguments(segment).next().map(|item| Self::Incoming(item.clone()))
            }
            _ => Some(Self::Input(ty.clone())),
        }
    }
}

/// What a handler's `Result` holds.
#[derive(Debug)]
pub(crate) struct Returned {
    /// The type of success.
    pub(crate) output: Type,
    /// Where the type of failure is written, or the `Result` if that leaves it out.
    pub(crate) failure: Span,
}

impl Returned {
    /// None if it is no `Result`.
    pub(crate) fn read(ty: &Type) -> Option<Self> {
        let segment = last_segment(ty).filter(|segment| segment.ident == "Result")?;
        let mut arguments = type_arguments(segment);
        let output = arguments.next()?.clone();
        let failure = arguments.next().map_or_else(|| segment.span(), Spanned::span);
        Some(Self { output, failure })
    }
}

/// The doc comment as a description: the lines of a paragraph joined, a blank line between two paragraphs. Lines of
/// lists and of code stay lines.
pub(crate) fn doc_text(attributes: &[Attribute]) -> Option<LitStr> {
    let docs: Vec<LitStr> = attributes.iter().filter_map(doc_line).collect();
    let first = docs.first()?;
    let lines = docs.iter().map(LitStr::value).collect::<Vec<_>>().join("\n");
    let mut text = String::new();
    let mut is_code = false;
    let mut ends_line = true;
    for line in lines.split('\n') {
        let trimmed = line.trim();
        let is_fence = trimmed.starts_with("```");
        let starts_line = ["- ", "* ", "#"].iter().any(|mark| trimmed.starts_with(mark));
        if is_code || is_fence || starts_line || trimmed.is_empty() || ends_line {
            text.push('\n');
        } else {
            text.push(' ');
        }
        // A space stands between `///` and the text; what else indents a line of code belongs to it.
        text.push_str(if is_code { line.strip_prefix(' ').unwrap_or(line) } else { trimmed });
        is_code ^= is_fence;
        ends_line = is_code || is_fence || trimmed.is_empty();
    }
    let text = text.trim();
    (!text.is_empty()).then(|| LitStr::new(text, first.span()))
}

fn doc_line(attribute: &Attribute) -> Option<LitStr> {
    match &attribute.meta {
        Meta::NameValue(doc) if doc.path.is_ident("doc") => match &doc.value {
            Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) => Some(line.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// The last word of a type's path, out of parentheses and the invisible groups of `macro_rules`.
fn last_segment(ty: &Type) -> Option<&PathSegment> {
    match ty {
        Type::Group(group) => last_segment(&group.elem),
        Type::Paren(paren) => last_segment(&paren.elem),
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    }
}

fn type_arguments(segment: &PathSegment) -> impl Iterator<Item = &Type> {
    let arguments = match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => Some(&arguments.args),
        _ => None,
    };
    arguments.into_iter().flatten().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    fn text(function: &ItemFn) -> Option<String> {
        doc_text(&function.attrs).map(|text| text.value())
    }

    #[test]
    fn a_doc_comment_becomes_paragraphs() {
        let function = parse_quote! {
            /// Finds the passages
            /// that answer a question.
            ///
            /// Ranks:
            /// - by words
            /// - by age
            fn f() {}
        };
        let expected = "Finds the passages that answer a question.\n\nRanks:\n- by words\n- by age";
        assert_eq!(text(&function).as_deref(), Some(expected));
    }

    #[test]
    fn code_in_a_doc_comment_keeps_its_lines() {
        let function = parse_quote! {
            /// Takes
            /// ```json
            /// { "a": 1,
            ///
            ///   "b": 2 }
            /// ```
            /// and
            /// adds.
            fn f() {}
        };
        let expected = "Takes\n```json\n{ \"a\": 1,\n\n  \"b\": 2 }\n```\nand adds.";
        assert_eq!(text(&function).as_deref(), Some(expected));
    }

    #[test]
    fn a_blank_doc_comment_describes_nothing() {
        let function = parse_quote! {
            ///
            ///
            fn f() {}
        };
        assert_eq!(text(&function), None);
    }

    #[test]
    fn a_parameter_is_told_by_the_last_word_of_its_type() {
        let read = |ty: Type| Parameter::read(&ty);
        assert!(matches!(read(parse_quote!(Context)), Some(Parameter::Context)));
        assert!(matches!(read(parse_quote!(hermes_peer::Context)), Some(Parameter::Context)));
        assert!(
            matches!(read(parse_quote!(a::Incoming<u8>)), Some(Parameter::Incoming(item)) if item == parse_quote!(u8))
        );
        assert!(read(parse_quote!(Incoming)).is_none());
        assert!(matches!(read(parse_quote!(Vec<Context>)), Some(Parameter::Input(_))));
        assert!(matches!(read(parse_quote!((Context, u8))), Some(Parameter::Input(_))));
    }

    #[test]
    fn a_result_is_told_from_other_types() {
        let output = |ty: Type| Returned::read(&ty).map(|returned| returned.output);
        assert_eq!(output(parse_quote!(Result<u8, E>)), Some(parse_quote!(u8)));
        assert_eq!(output(parse_quote!(std::io::Result<()>)), Some(parse_quote!(())));
        assert_eq!(output(parse_quote!(Result)), None);
        assert_eq!(output(parse_quote!(Option<Result<u8, E>>)), None);
    }
}
