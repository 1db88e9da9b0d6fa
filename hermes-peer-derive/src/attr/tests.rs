use quote::quote;

use super::*;

fn errors(args: TokenStream) -> Vec<String> {
    let mut diag = Diag::default();
    parse(args, &mut diag);
    diag.messages()
}

fn parsed(args: TokenStream) -> Attrs {
    let mut diag = Diag::default();
    let attrs = parse(args, &mut diag);
    assert_eq!(diag.messages(), [""; 0]);
    attrs
}

#[test]
fn every_key_is_known_by_its_example() {
    for (key, example) in KEYS {
        assert!(example.starts_with(key), "{example}");
        let args: TokenStream = format!("\"a.b\", {example},").parse().unwrap();
        assert_eq!(errors(args), [""; 0], "{example}");
    }
}

#[test]
fn numbers_reach_their_limits_and_not_beyond() {
    for (key, low, high) in [
        ("cost", 0, 10),
        ("weight", 1, 1000),
        ("concurrency", 1, u64::from(u32::MAX)),
        ("queue", 0, u64::from(u32::MAX)),
    ] {
        let errors = |value: String| errors(format!("\"a.b\", {key} = {value}").parse().unwrap()).len();
        assert_eq!(errors(low.to_string()), 0, "{key}");
        assert_eq!(errors(high.to_string()), 0, "{key}");
        assert_eq!(errors((high + 1).to_string()), 1, "{key}");
        assert_eq!(errors(format!("{}", i128::from(low) - 1)), 1, "{key}");
        assert_eq!(errors("99999999999999999999".to_owned()), 1, "{key}");
        assert_eq!(errors("\"1\"".to_owned()), 1, "{key}");
    }
}

#[test]
fn a_version_is_exactly_three_numbers() {
    assert_eq!(parsed(quote!("a.b", version = "1.20.3")).version, Some([1, 20, 3]));
    for refused in ["1.2", "1.2.3.4", "", "1..3", "v1.2.3", "+1.2.3", "01.2.3", "1.2.4294967296", "1.2.3-rc"]
    {
        assert_eq!(errors(quote!("a.b", version = #refused)).len(), 1, "{refused}");
    }
}

#[test]
fn one_mistake_hides_no_other() {
    let found = errors(quote!(
        "a.b",
        cosst = 1,
        cost = 11,
        cost = 3,
        idempotent = true,
        weight,
        ,
        queue(3),
        reads = ["A", 1, "b", "b"],
        writes = "c",
        "d.e",
        access = "root" weight = 2,
        version = "2",
        description = "",
        concurrency = 0
    ));
    assert_eq!(found.len(), 16, "{found:#?}");
}

#[test]
fn a_name_that_is_missing_or_late_is_asked_for() {
    assert_eq!(errors(quote!()).len(), 1);
    assert_eq!(errors(quote!(idempotent)).len(), 1);
    assert_eq!(errors(quote!(3)).len(), 1);
    assert_eq!(errors(quote!(idempotent, "a.b")).len(), 2);
}

#[test]
fn values_passed_on_by_another_macro_are_read() {
    let two = TokenTree::Group(proc_macro2::Group::new(proc_macro2::Delimiter::None, quote!(2)));
    let name = TokenTree::Group(proc_macro2::Group::new(proc_macro2::Delimiter::None, quote!("a.b")));
    let attrs = parsed(quote!(#name, cost = #two));
    assert_eq!(attrs.cost, Some(2));
    assert_eq!(attrs.name.map(|name| name.value()).as_deref(), Some("a.b"));
}
