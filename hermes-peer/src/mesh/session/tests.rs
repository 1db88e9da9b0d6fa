use hermes_peer_proto::wire::Merge;
use tokio::time::advance;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn sessions(change: impl FnOnce(&mut SessionSettings)) -> Sessions {
    let mut settings = SessionSettings { idle_timeout: 2 * SECOND, ..SessionSettings::default() };
    change(&mut settings);
    Sessions::new(settings)
}

fn write(name: &str, version: u64, value: &str) -> SlotValue {
    SlotValue { name: name.parse().unwrap(), version, merge: Merge::Replace, value: value.into() }
}

fn name(name: &str) -> SlotName {
    name.parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_expires_and_one_with_a_request_in_flight_does_not() {
    // FC-059
    let sessions = sessions(|_| {});
    let idle = sessions.open(Instant::now()).unwrap();
    let busy = sessions.open(Instant::now()).unwrap();
    idle.write(&[write("a", 0, "1")]).unwrap();
    busy.write(&[write("a", 0, "1")]).unwrap();
    let request = busy.begin().unwrap();
    advance(10 * SECOND).await;
    assert_eq!(sessions.expire(Instant::now()), 1);
    assert!(sessions.session(idle.id(), Instant::now()).is_err());
    assert!(idle.inner.lock().slots.is_empty(), "whoever still holds it holds no slots");
    assert_eq!(request.session().read(&[name("a")]).unwrap().len(), 1);

    drop(request);
    advance(2 * SECOND - Duration::from_millis(1)).await;
    assert_eq!(sessions.expire(Instant::now()), 0, "the idle time starts when the request ends");
    advance(Duration::from_millis(1)).await;
    assert_eq!(sessions.expire(Instant::now()), 1);
    assert_eq!(sessions.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn expired_closed_and_never_opened_sessions_give_the_same_answer() {
    // FC-061
    let sessions = sessions(|_| {});
    let expired = sessions.open(Instant::now()).unwrap().id();
    advance(2 * SECOND).await;
    let closed = sessions.open(Instant::now()).unwrap();
    sessions.close(closed.id()).unwrap();
    let never = SessionId::from_bytes([7; 16]);
    for id in [expired, closed.id(), never] {
        let gone = sessions.session(id, Instant::now()).unwrap_err();
        assert_eq!(gone, SessionGone { session: id });
        assert_eq!(gone.code(), ErrorCode::SessionExpired);
        assert!(!gone.code().is_retryable());
    }
    assert!(closed.begin().is_err());
    assert!(closed.read(&[name("a")]).is_err());
    assert_eq!(closed.write(&[write("a", 0, "1")]).unwrap_err().code(), ErrorCode::SessionExpired);
}

#[tokio::test(start_paused = true)]
async fn a_request_at_the_moment_of_expiry_gets_the_whole_session_or_none() {
    // FC-061
    for late in 0..2 {
        let sessions = sessions(|_| {});
        let session = sessions.open(Instant::now()).unwrap();
        session.write(&[write("a", 0, "1"), write("b", 0, "2")]).unwrap();
        let found = sessions.session(session.id(), Instant::now()).unwrap();
        advance(2 * SECOND).await;
        if late == 1 {
            sessions.expire(Instant::now());
            assert!(found.begin().is_err());
        } else {
            let request = found.begin().unwrap();
            assert_eq!(sessions.expire(Instant::now()), 0);
            assert_eq!(request.session().read(&[name("a"), name("b")]).unwrap().len(), 2);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn past_the_bound_sessions_are_refused_and_idle_ones_make_room() {
    // FC-059
    let sessions = sessions(|settings| settings.max_sessions = 2);
    let first = sessions.open(Instant::now()).unwrap();
    sessions.open(Instant::now()).unwrap();
    assert_eq!(sessions.open(Instant::now()).unwrap_err(), OpenRefused::Overloaded { limit: 2 });
    let _request = first.begin().unwrap();
    advance(2 * SECOND).await;
    assert!(sessions.open(Instant::now()).is_ok());
    assert_eq!(sessions.count(), 2);
    assert_eq!(
        sessions.open_with(first.id(), Instant::now()).unwrap_err(),
        OpenRefused::Taken { session: first.id() }
    );
}

#[tokio::test(start_paused = true)]
async fn writes_apply_all_or_none() {
    let sessions = sessions(|settings| {
        settings.max_bytes = 10;
        settings.max_slots = 2;
    });
    let session = sessions.open(Instant::now()).unwrap();
    let versions = session.write(&[write("a", 0, "1"), write("a", 1, "2"), write("b", 0, "3")]).unwrap();
    assert_eq!(versions, [(name("a"), 1), (name("a"), 2), (name("b"), 1)]);

    let kept = session.read(&[name("a"), name("b"), name("a")]).unwrap();
    let refused = |writes: &[SlotValue]| {
        let refused = session.write(writes).unwrap_err();
        assert_eq!(session.read(&[name("a"), name("b")]).unwrap(), kept, "{refused}");
        refused
    };
    assert_eq!(refused(&[write("a", 2, "4"), write("b", 0, "5")]).code(), ErrorCode::SlotConflict);
    assert_eq!(refused(&[write("b", 1, "12345678910")]), SlotRefused::TooLarge { bytes: 12, limit: 10 });
    assert_eq!(refused(&[write("c", 0, "1")]), SlotRefused::TooMany { count: 3, limit: 2 });
    assert_eq!(session.write(&[write("b", 1, "123456789")]).unwrap(), [(name("b"), 2)]);
}
