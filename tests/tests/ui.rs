//! What `#[capability]` says about what it does not accept: one case for each message.
//!
//! After a deliberate change of a message: `TRYBUILD=overwrite cargo test -p hermes-peer-tests --test ui`, then read the
//! difference.

#[test]
fn every_mistake_in_a_capability_is_named_where_it_is() {
    trybuild::TestCases::new().compile_fail("ui/*.rs");
}
