//! What `#[capability]` accepts, and what it says about what it does not: one case for each message.
//!
//! After a deliberate change of a message: `TRYBUILD=overwrite cargo test -p hermes-peer-tests --test ui`, then read the
//! difference.

#[test]
fn every_mistake_in_a_capability_is_named_where_it_is() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("ui/*.rs");
    cases.pass("ui/pass/*.rs");
}
