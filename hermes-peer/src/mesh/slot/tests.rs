use super::*;

fn name(name: &str) -> SlotName {
    name.parse().unwrap()
}

fn write(version: u64, merge: Merge, value: &str) -> SlotValue {
    SlotValue { name: name("intent"), version, merge, value: value.into() }
}

fn after(writes: &[(Merge, &str)]) -> Result<String, SlotRefused> {
    let mut slot = SlotState::default();
    for (version, (merge, value)) in (0..).zip(writes) {
        assert_eq!(slot.apply(&write(version, *merge, value))?, version + 1);
    }
    Ok(slot.text)
}

#[test]
fn a_write_of_any_kind_based_on_another_version_is_a_conflict_and_changes_nothing() {
    let mut slot = SlotState::default();
    slot.apply(&write(0, Merge::Replace, "[1]")).unwrap();
    slot.apply(&write(1, Merge::Append, "2")).unwrap();
    let before = slot.clone();
    for merge in [Merge::Replace, Merge::Append, Merge::Merge] {
        for based_on in [0, 1, 3] {
            let refused = slot.apply(&write(based_on, merge, "[]")).unwrap_err();
            assert_eq!(refused, SlotRefused::Conflict { slot: name("intent"), based_on, current: 2 });
            assert_eq!(refused.code(), ErrorCode::SlotConflict);
        }
    }
    assert_eq!(slot, before);
}

#[test]
fn an_append_adds_one_element_whatever_it_is() {
    assert_eq!(after(&[(Merge::Append, "1")]).unwrap(), "[1]");
    assert_eq!(after(&[(Merge::Append, "1"), (Merge::Append, "[2,3]")]).unwrap(), "[1,[2,3]]");
    let refused = after(&[(Merge::Replace, "{}"), (Merge::Append, "1")]).unwrap_err();
    assert_eq!(refused, SlotRefused::NotAList { slot: name("intent"), held: "an object" });
}

#[test]
fn a_merge_is_a_merge_patch() {
    // The examples of RFC 7396, appendix A, that differ in kind.
    for (target, patch, result) in [
        (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
        (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
        (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
        (r#"{"a":"foo"}"#, "null", "null"),
        (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
        (r#"[1,2]"#, r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
    ] {
        assert_eq!(after(&[(Merge::Replace, target), (Merge::Merge, patch)]).unwrap(), result);
    }
    assert_eq!(after(&[(Merge::Merge, r#"{"a":{"bb":{"ccc":null}}}"#)]).unwrap(), r#"{"a":{"bb":{}}}"#);
}

#[test]
fn numbers_keep_every_digit_through_a_merge() {
    let big = "18446744073709551616.000000000000000001";
    let merged = after(&[(Merge::Merge, &format!(r#"{{"a":{big}}}"#)), (Merge::Merge, r#"{"b":1}"#)]);
    assert_eq!(merged.unwrap(), format!(r#"{{"a":{big},"b":1}}"#));
}

#[test]
fn what_could_not_be_read_again_is_not_written() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    for levels in 120..140 {
        let Ok(kept) = after(&[(Merge::Append, &nested(levels))]) else {
            continue;
        };
        assert!(read(&name("intent"), &kept).is_ok(), "{levels} levels");
    }
    let deepest =
        (0..200).take_while(|levels| after(&[(Merge::Replace, &nested(*levels + 1))]).is_ok()).count();
    let refused = after(&[(Merge::Append, &nested(deepest))]);
    assert_eq!(refused, Err(SlotRefused::TooDeep { slot: name("intent") }));
    for broken in ["", "{", "1 2", "nul", "\u{feff}1"] {
        assert!(matches!(after(&[(Merge::Replace, broken)]), Err(SlotRefused::NotJson { .. })), "{broken}");
    }
}

#[test]
fn a_handler_sees_what_it_wrote_and_its_writes_build_on_each_other() {
    let travelled = SlotValue { version: 7, ..write(7, Merge::Replace, "[1]") };
    let mut view = SlotView::new(vec![travelled], &[], &[name("intent")]);
    view.set(&name("intent"), "2".into(), Merge::Append).unwrap();
    view.set(&name("intent"), "3".into(), Merge::Append).unwrap();
    assert_eq!(view.text(&name("intent")).unwrap(), Some("[1,2,3]"));

    let mut owner = SlotState { version: 7, text: "[1]".into() };
    for written in view.take_writes() {
        owner.apply(&written).unwrap();
    }
    assert_eq!(owner.text(), Some("[1,2,3]"));
    assert_eq!(view.take_writes(), [], "each write is handed on once");
    view.set(&name("intent"), "4".into(), Merge::Append).unwrap();
    assert_eq!(owner.apply(&view.take_writes()[0]), Ok(10), "later writes build on those handed on");
}

#[test]
fn only_declared_slots_can_be_used() {
    let other = SlotValue { name: name("secret"), ..write(1, Merge::Replace, "1") };
    let mut view = SlotView::new(vec![other], &[name("intent")], &[name("entities")]);
    assert_eq!(view.text(&name("intent")), Ok(None));
    assert_eq!(view.text(&name("secret")).unwrap_err().code(), ErrorCode::PermissionDenied);
    let refused = view.set(&name("intent"), "1".into(), Merge::Replace).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "slot `intent` is not among those that the capability writes: add it to `writes` where it is registered"
    );
    assert_eq!(view.take_writes(), []);
}

#[test]
fn writes_of_a_nested_call_are_seen_and_handed_on_in_order() {
    let mut outer = SlotView::new(Vec::new(), &[], &[name("intent")]);
    outer.set(&name("intent"), "1".into(), Merge::Append).unwrap();
    let mut inner = SlotView::new(outer.values(&[name("intent")]), &[], &[name("intent")]);
    let mut beside = SlotView::new(outer.values(&[name("intent")]), &[], &[name("intent")]);
    inner.set(&name("intent"), "2".into(), Merge::Append).unwrap();
    beside.set(&name("intent"), "3".into(), Merge::Append).unwrap();

    outer.absorb(inner.take_writes()).unwrap();
    assert_eq!(outer.text(&name("intent")).unwrap(), Some("[1,2]"));
    let conflict = outer.absorb(beside.take_writes()).unwrap_err();
    assert_eq!(conflict, SlotRefused::Conflict { slot: name("intent"), based_on: 1, current: 2 });

    let mut owner = SlotState::default();
    let versions: Vec<_> = outer.take_writes().iter().map(|write| owner.apply(write)).collect();
    assert_eq!(versions, [Ok(1), Ok(2)]);
    assert_eq!(owner.text(), Some("[1,2]"));
}
