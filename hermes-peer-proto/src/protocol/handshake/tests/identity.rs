use super::*;

#[test]
fn a_certificate_is_good_for_its_own_agent_only() {
    // FC-022
    const OTHER: &str = "agent://default/support/retrieval-admin";
    let (expected, found) = (
        OTHER.parse::<AgentUri>().unwrap(),
        ANSWERER.parse::<AgentUri>().unwrap(),
    );
    // C has a certificate of the same CA and claims to be B: as acceptor, then as initiator.
    let mut pair = Pair::by_mtls();
    pair.acceptor = local(ANSWERER, "retrieval-01", mtls(OTHER));
    pair.seen[0] = leaf(&pair.acceptor);
    let (one, two) = pair.errors();
    assert_eq!(
        one,
        Refused::AgentMismatch {
            expected: expected.clone(),
            found: found.clone()
        }
        .into()
    );
    assert!(is_refused_by_peer(&two, ErrorCode::Unauthenticated));

    let mut pair = Pair::by_mtls();
    pair.initiator = local(ANSWERER, "nlu-01", mtls(OTHER));
    pair.seen[1] = leaf(&pair.initiator);
    let (one, two) = pair.errors();
    let text = two.to_string();
    assert!(text.contains(OTHER) && text.contains(ANSWERER), "{text}");
    assert_eq!(two, Refused::AgentMismatch { expected, found }.into());
    // A stranger is not told whom we would have taken it for.
    assert_eq!(
        one.to_string(),
        "the peer refused: UNAUTHENTICATED (the peer could not prove who it is)"
    );
}

#[test]
fn a_certificate_without_its_key_proves_nothing() {
    for at in 0..2 {
        let mut pair = Pair::by_mtls();
        // The certificate that the other side saw in TLS is one for the right agent and another key.
        pair.seen[at] = leaf(&local(ANSWERER, "x", mtls([ANSWERER, DIALLER][at])));
        let (one, two) = pair.run(|_, frame| frame);
        let refused = if at == 0 { one } else { two }.unwrap_err();
        assert_eq!(refused, Refused::Proof { kind: AuthKind::Mtls }.into());
    }
    let mut pair = Pair::by_mtls();
    pair.seen = [None, None];
    assert_eq!(pair.errors().1, Refused::NoCertificate.into());
    pair.seen[1] = leaf(&pair.initiator);
    assert_eq!(pair.errors().0, Refused::NoCertificate.into());
}

#[test]
fn a_man_in_the_middle_gains_nothing() {
    for mut pair in [Pair::by_token(), Pair::by_mtls()] {
        // He ends TLS on both sides, so each side has another exporter.
        pair.bindings = [7, 8];
        let (one, two) = pair.errors();
        assert_eq!(
            one,
            Refused::Proof {
                kind: pair.initiator.credentials.kind()
            }
            .into()
        );
        assert_eq!(one.code(), ErrorCode::Unauthenticated);
        assert!(is_refused_by_peer(&two, ErrorCode::Unauthenticated));
    }
}

#[test]
fn a_proof_sent_back_to_its_maker_proves_nothing() {
    let pair = Pair::by_token();
    let (initiator, syn) = pair.start();
    let (acceptor, syn_ack) = pair.acceptor().syn(syn).unwrap().accept(link(9), Resumption::New);
    let (_, body, proof) = take_with_proof::<SynAck>(&syn_ack.payload).unwrap();
    assert_eq!(with_proof(body, &proof), syn_ack.payload);
    let reflected = with_proof(&Established { fields: vec![] }.encode(), &proof);
    let frame = Frame::control(MessageType::Established, StreamId::LINK, reflected);
    assert_eq!(
        acceptor.established(frame).unwrap_err(),
        Refused::Proof {
            kind: AuthKind::Token
        }
        .into()
    );
    assert!(initiator.syn_ack(syn_ack).is_ok());
}

#[test]
fn tokens_that_differ_are_refused_with_their_ids_on_both_sides() {
    // FC-026
    let mut pair = Pair::by_token();
    pair.initiator.credentials = tokens(&[OTHER_TOKEN]);
    let (one, two) = pair.errors();
    assert_eq!(
        two,
        Refused::UnknownTokens {
            tried: vec![token_id(OTHER_TOKEN)]
        }
        .into()
    );
    assert!(is_refused_by_peer(&one, ErrorCode::Unauthenticated));
    for error in [&one, &two] {
        assert!(
            error.to_string().contains(&token_id(OTHER_TOKEN).to_string()),
            "{error}"
        );
        assert!(!error.is_worth_retrying());
    }
}

#[test]
fn a_token_is_changed_without_a_gap() {
    // FC-026
    let with = |ours: &[&str], theirs: &[&str]| {
        let mut pair = Pair::by_token();
        pair.initiator.credentials = tokens(ours);
        pair.acceptor.credentials = tokens(theirs);
        pair.both().0.token_id
    };
    assert_eq!(with(&[TOKEN, OTHER_TOKEN], &[TOKEN]), Some(token_id(TOKEN)));
    assert_eq!(
        with(&[TOKEN, OTHER_TOKEN], &[OTHER_TOKEN]),
        Some(token_id(OTHER_TOKEN))
    );
    assert_eq!(
        with(&[OTHER_TOKEN], &[TOKEN, OTHER_TOKEN]),
        Some(token_id(OTHER_TOKEN))
    );
    assert_eq!(
        with(&[TOKEN, OTHER_TOKEN], &[OTHER_TOKEN, TOKEN]),
        Some(token_id(OTHER_TOKEN))
    );
}

#[test]
fn an_acceptor_that_names_another_token_or_none_is_refused() {
    for named in [None, Some(token_id(OTHER_TOKEN))] {
        let bend = |step, frame| {
            if step == 1 {
                edited(frame, |answer: &mut SynAck| answer.token_id = named)
            } else {
                frame
            }
        };
        assert_eq!(
            errors(Pair::by_token().run(bend)).0,
            PeerMisbehaved::WrongToken.into()
        );
    }
    let many = syn_with(|syn| syn.token_ids = vec![TokenId([0; 8]); 17]).unwrap_err();
    assert_eq!(
        many,
        PeerMisbehaved::TooManyTokenIds { count: 17, limit: 16 }.into()
    );
}

#[test]
fn sides_that_are_set_up_for_different_auth_modes_say_so() {
    let mut pair = Pair::by_token();
    pair.acceptor.credentials = mtls(ANSWERER);
    let (one, two) = pair.errors();
    assert_eq!(
        two,
        Incompatible::AuthKind {
            ours: AuthKind::Mtls,
            theirs: AuthKind::Token
        }
        .into()
    );
    assert!(is_refused_by_peer(&one, ErrorCode::Unauthenticated));
    assert!(
        one.to_string().contains("mtls") && one.to_string().contains("token"),
        "{one}"
    );
}

#[test]
fn whoever_answers_must_be_whom_we_dialled() {
    // FC-022
    for (agent, node, expected) in [
        (Some(ANSWERER), Some("retrieval-01"), None),
        (
            Some(DIALLER),
            None,
            Some(Refused::WrongAgent {
                expected: DIALLER.parse().unwrap(),
                found: ANSWERER.parse().unwrap(),
            }),
        ),
        (
            Some(ANSWERER),
            Some("retrieval-02"),
            Some(Refused::WrongNode {
                expected: "retrieval-02".parse().unwrap(),
                found: "retrieval-01".parse().unwrap(),
            }),
        ),
    ] {
        let mut pair = Pair::by_mtls();
        pair.expected = Expected {
            agent: agent.map(|agent| agent.parse().unwrap()),
            node: node.map(|node| node.parse().unwrap()),
        };
        let (one, _) = pair.run(|_, frame| frame);
        assert_eq!(one.err(), expected.map(HandshakeError::from));
    }
}

#[test]
fn a_node_links_neither_to_itself_nor_to_a_twin() {
    let mut pair = Pair::by_token();
    pair.acceptor.node = pair.initiator.node.clone();
    let (one, two) = pair.errors();
    assert_eq!(
        two,
        Refused::SelfConnection {
            node: pair.acceptor.node.clone()
        }
        .into()
    );
    assert!(is_refused_by_peer(&one, ErrorCode::LoopDetected));
    pair.acceptor.epoch = Epoch(6);
    assert_eq!(
        pair.errors().1,
        Refused::TwinNode {
            node: pair.acceptor.node
        }
        .into()
    );
    // An acceptor that does not look is found out by the initiator.
    let pair = Pair::by_token();
    let (initiator, syn) = pair.start();
    let node = pair.initiator.node.clone();
    let answer = proven(&pair, syn, |answer| {
        (answer.node, answer.epoch) = (node.clone(), Epoch(5))
    });
    assert_eq!(
        initiator.syn_ack(answer).unwrap_err(),
        Refused::SelfConnection { node }.into()
    );
}
