use super::*;

#[test]
fn a_link_goes_on_when_its_secret_is_shown() {
    let (one, two) = resuming(1, 1).both();
    assert_eq!((one.link, two.link), (link(4), link(4)));
    assert_eq!(
        one.resumed,
        Resumed::Yes { received: 22 },
        "the initiator learns what the acceptor has received"
    );
    assert_eq!(
        two.resumed,
        Resumed::Yes { received: 11 },
        "and the acceptor what the initiator has"
    );
    assert_eq!(one.secret, two.secret);
    assert_ne!(
        one.secret,
        Pair::by_token().both().0.secret,
        "renewed from the old secret"
    );
}

#[test]
fn a_wish_with_another_secret_is_never_granted() {
    let pair = resuming(1, 2);
    let (one, two) = pair.both();
    assert_eq!((one.link, two.link), (link(9), link(9)));
    assert_eq!(
        (one.resumed, two.resumed),
        (Resumed::No { received: None }, Resumed::No { received: None })
    );
    assert_eq!(one.secret, two.secret);
    let received = pair.acceptor().syn(pair.start().1).unwrap();
    assert!(received.verify_resume(&secret(1)));
    assert!(!received.verify_resume(&secret(2)));
}

#[test]
fn a_resume_proof_covers_the_whole_syn_and_its_connection() {
    let pair = resuming(1, 1);
    let verifies = |binding: u8, edit: fn(&mut Syn)| {
        let mut there = resuming(1, 1);
        there.bindings[1] = binding;
        let received = there.acceptor().syn(edited(pair.start().1, edit)).unwrap();
        received.verify_resume(&secret(1))
    };
    assert!(verifies(7, |_| ()));
    assert!(!verifies(8, |_| ()), "taken from another connection");
    assert!(!verifies(7, |syn| syn.resume.as_mut().unwrap().received += 1));
    assert!(!verifies(7, |syn| syn.resume.as_mut().unwrap().link = link(5)));
    assert!(!verifies(7, |syn| syn.node = "other-01".parse().unwrap()));
    assert!(!verifies(7, |syn| syn.epoch = Epoch(99)));
}

#[test]
fn a_link_that_cannot_go_on_is_replaced_and_says_what_had_arrived() {
    let mut pair = resuming(1, 1);
    pair.resumption = Resumption::Refused { received: Some(22) };
    let (one, two) = pair.both();
    assert_eq!((one.link, two.link), (link(9), link(9)));
    assert_eq!(one.resumed, Resumed::No { received: Some(22) });
    assert_eq!(two.resumed, Resumed::No { received: Some(11) });
    pair.resumption = Resumption::New;
    assert_eq!(pair.both().0.resumed, Resumed::No { received: None });
}

#[test]
fn version_one_neither_offers_nor_grants_a_resume() {
    let mut pair = resuming(1, 1);
    pair.acceptor.versions = versions(1, 1);
    assert!(pair.acceptor().syn(pair.start().1).unwrap().resume().is_none());
    let (one, two) = pair.both();
    assert_eq!(
        (one.link, one.resumed, two.resumed),
        (link(9), Resumed::No { received: None }, one.resumed)
    );
    pair.initiator.versions = versions(1, 1);
    assert_eq!(Syn::decode(&pair.start().1.payload).unwrap().resume, None);
    assert_eq!(pair.both().0.resumed, Resumed::New);
}

#[test]
fn an_answer_to_a_resume_that_does_not_fit_the_question_is_refused() {
    let lying = |ticket: Option<ResumeTicket>, version, link, resumed| {
        let mut pair = Pair::by_token();
        pair.ticket = ticket;
        let (initiator, syn) = pair.start();
        let answer = proven(&pair, syn, |answer| {
            (answer.version, answer.link, answer.resumed) = (version, link, resumed);
        });
        initiator.syn_ack(answer).map(|(up, _)| up.resumed)
    };
    let ticket = || {
        Some(ResumeTicket {
            link: link(4),
            received: 11,
            secret: secret(1),
        })
    };
    let yes = Resumed::Yes { received: 0 };
    let no = Resumed::No { received: None };
    assert_eq!(lying(None, 2, link(4), Resumed::New), Ok(Resumed::New));
    assert_eq!(lying(ticket(), 2, link(4), yes), Ok(yes));
    assert_eq!(lying(ticket(), 2, link(5), no), Ok(no));
    for (ticket, version, link, resumed) in [
        (None, 2, link(4), yes),
        (None, 2, link(4), no),
        (ticket(), 2, link(5), Resumed::New),
        (ticket(), 1, link(4), yes),
        (ticket(), 2, link(5), yes),
        (ticket(), 2, link(4), no),
    ] {
        let refused = lying(ticket, version, link, resumed).unwrap_err();
        assert!(
            matches!(
                refused,
                HandshakeError::Misbehaved(PeerMisbehaved::WrongResume { .. })
            ),
            "{resumed:?}: {refused:?}"
        );
    }
}
