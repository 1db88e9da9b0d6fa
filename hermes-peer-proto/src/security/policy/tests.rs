use super::*;

fn agent(text: &str) -> AgentUri {
    text.parse().unwrap()
}

fn own() -> AgentUri {
    agent("agent://default/support/retrieval")
}

fn rule(effect: Effect, verb: Verb, name: &str, from: &str) -> Rule {
    Rule {
        effect,
        verb,
        names: vec![name.parse().unwrap()],
        from: vec![from.parse().unwrap()],
    }
}

fn ask(policy: &Policy, from: &str, is_same_user: bool, action: Action<'_>) -> Decision {
    let node = "some-node-01".parse().unwrap();
    policy.decide(
        &Caller {
            agent: &agent(from),
            node: &node,
            is_same_user,
        },
        action,
    )
}

fn may_call(policy: &Policy, from: &str, name: &str, access: Access) -> Decision {
    ask(
        policy,
        from,
        false,
        Action::Call {
            capability: &name.parse().unwrap(),
            access,
        },
    )
}

const NLU: &str = "agent://default/support/nlu";
const STRANGER: &str = "agent://acme/support/nlu";

#[test]
fn without_a_policy_the_tenant_may_do_what_is_public_and_nobody_else_anything() {
    let policy = Policy::without_rules(&own());
    let public = may_call(&policy, NLU, "knowledge.retrieve", Access::Public);
    assert!(public.allowed);
    assert_eq!(public.rule.to_string(), format!("default: {SAME_TENANT}"));
    assert!(!may_call(&policy, NLU, "knowledge.retrieve", Access::Restricted).allowed);
    assert!(!may_call(&policy, NLU, "knowledge.retrieve", Access::Admin).allowed);
    let stranger = may_call(&policy, STRANGER, "knowledge.retrieve", Access::Public);
    assert_eq!(
        stranger,
        Decision {
            allowed: false,
            rule: DecidedBy::Default(OTHER_TENANT)
        }
    );
    let (topic, wanted) = ("ticket.created".parse().unwrap(), "ticket.*".parse().unwrap());
    let slot = "intent".parse().unwrap();
    for action in [
        Action::Publish { topic: &topic },
        Action::Subscribe { pattern: &wanted },
        Action::ReadSlot { slot: &slot },
        Action::WriteSlot { slot: &slot },
    ] {
        assert!(ask(&policy, NLU, false, action).allowed, "{action:?}");
        assert!(!ask(&policy, STRANGER, false, action).allowed, "{action:?}");
    }
}

#[test]
fn processes_of_one_user_may_do_everything_until_a_policy_is_written() {
    let admin = "hermes.peers".parse().unwrap();
    let action = Action::Call {
        capability: &admin,
        access: Access::Admin,
    };
    assert!(ask(&Policy::without_rules(&own()), STRANGER, true, action).allowed);
    assert!(!ask(&Policy::with_rules(&own(), vec![]), NLU, true, action).allowed);
}

#[test]
fn with_a_policy_only_what_a_rule_allows_is_allowed() {
    let rules = vec![rule(
        Effect::Allow,
        Verb::Call,
        "knowledge.*",
        "agent://default/support/*",
    )];
    let policy = Policy::with_rules(&own(), rules);
    let allowed = may_call(&policy, NLU, "knowledge.retrieve", Access::Public);
    assert_eq!(
        (allowed.allowed, allowed.rule.to_string()),
        (true, "policy rule 1".to_owned())
    );
    assert!(may_call(&policy, NLU, "knowledge.retrieve", Access::Restricted).allowed);
    let other = may_call(&policy, NLU, "content.generate", Access::Public);
    assert_eq!(
        other,
        Decision {
            allowed: false,
            rule: DecidedBy::NoRule
        }
    );
    assert!(
        !may_call(
            &policy,
            "agent://default/sales/nlu",
            "knowledge.retrieve",
            Access::Public
        )
        .allowed
    );
    assert!(!may_call(&policy, STRANGER, "knowledge.retrieve", Access::Public).allowed);
    let topic = "knowledge.changed".parse().unwrap();
    assert!(
        !ask(&policy, NLU, false, Action::Publish { topic: &topic }).allowed,
        "the verb counts"
    );
    assert!(
        !may_call(
            &Policy::with_rules(&own(), vec![]),
            NLU,
            "knowledge.retrieve",
            Access::Public
        )
        .allowed
    );
}

#[test]
fn a_rule_that_denies_wins_wherever_it_stands() {
    let allow = rule(Effect::Allow, Verb::Call, "*", "agent://default/*/*");
    let deny = rule(Effect::Deny, Verb::Call, "knowledge.*", NLU);
    for (rules, number) in [([allow.clone(), deny.clone()], 2), ([deny, allow], 1)] {
        let policy = Policy::with_rules(&own(), rules.to_vec());
        let denied = may_call(&policy, NLU, "knowledge.retrieve", Access::Public);
        assert_eq!(
            denied,
            Decision {
                allowed: false,
                rule: DecidedBy::Rule(number)
            }
        );
        assert!(
            may_call(
                &policy,
                "agent://default/support/nlu-2",
                "knowledge.retrieve",
                Access::Public
            )
            .allowed
        );
    }
}

#[test]
fn the_right_to_call_is_no_right_to_administer() {
    let policy = |effect, verb| {
        let admin = rule(Effect::Allow, Verb::Admin, "hermes.*", NLU);
        Policy::with_rules(&own(), vec![rule(effect, verb, "**", NLU), admin])
    };
    let calls_only = Policy::with_rules(&own(), vec![rule(Effect::Allow, Verb::Call, "**", NLU)]);
    assert!(!may_call(&calls_only, NLU, "hermes.peers", Access::Admin).allowed);
    let admin = policy(Effect::Allow, Verb::Publish);
    assert!(may_call(&admin, NLU, "hermes.peers", Access::Admin).allowed);
    assert!(
        !may_call(&admin, NLU, "hermes.peers", Access::Public).allowed,
        "nor the other way round"
    );
    let denied = policy(Effect::Deny, Verb::Call);
    assert!(!may_call(&denied, NLU, "hermes.peers", Access::Admin).allowed);
}

#[test]
fn a_subscription_is_allowed_when_all_of_it_is_and_none_of_it_denied() {
    let allow = rule(Effect::Allow, Verb::Subscribe, "ticket.*", NLU);
    let deny = rule(Effect::Deny, Verb::Subscribe, "ticket.secret", NLU);
    let allows = |rules: &[&Rule], wanted: &str| {
        let policy = Policy::with_rules(&own(), rules.iter().copied().cloned().collect());
        ask(
            &policy,
            NLU,
            false,
            Action::Subscribe {
                pattern: &wanted.parse().unwrap(),
            },
        )
        .allowed
    };
    assert!(allows(&[&allow], "ticket.*"));
    assert!(allows(&[&allow], "ticket.created"));
    assert!(!allows(&[&allow], "ticket.**"), "more than is allowed");
    assert!(!allows(&[&allow], "*.created"));
    assert!(!allows(&[&allow, &deny], "ticket.*"), "a part of it is denied");
    assert!(allows(&[&allow, &deny], "ticket.created"));
}
