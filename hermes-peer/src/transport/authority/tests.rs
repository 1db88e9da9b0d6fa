use std::fs;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

fn agent() -> AgentUri {
    "agent://default/support/nlu".parse().unwrap()
}

fn node() -> NodeId {
    "nlu-agent-01".parse().unwrap()
}

struct Folder {
    root: tempfile::TempDir,
    authority: Authority,
}

impl Folder {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let authority = Authority::create(&root.path().join("ca")).unwrap();
        Self { root, authority }
    }

    fn save(&self, issued: &IssuedPem, name: &str) -> PathBuf {
        let path = self.root.path().join(name);
        issued.save(&path, &path.with_extension("key")).unwrap();
        path
    }
}

#[test]
fn a_certificate_says_what_was_asked_for_and_begins_five_minutes_ago() {
    // FC-020
    let folder = Folder::new();
    let now = SystemTime::now();
    let path = folder.save(&folder.authority.issue(&agent(), &node(), HOUR).unwrap(), "node.pem");
    let facts = folder.authority.show(&path).unwrap();
    assert_eq!((facts.agent.as_ref(), facts.is_revoked), (Some(&agent()), false));
    let age = now.duration_since(facts.not_before).unwrap();
    assert!(age >= BACKDATED && age < BACKDATED + Duration::from_secs(60), "{age:?}");
    assert!(facts.issuer.starts_with("CN=Hermes authority "), "{}", facts.issuer);
    assert!(facts.not_after <= now + HOUR + Duration::from_secs(60));
}

#[test]
fn the_authority_ends_before_2050_and_no_certificate_outlives_it() {
    // FC-020
    let folder = Folder::new();
    let own = CertificateFacts::read(folder.authority.certificate()).unwrap();
    assert!(own.not_after <= SystemTime::UNIX_EPOCH + LAST_DAY);
    let late = ca_params("late", SystemTime::UNIX_EPOCH + LAST_DAY - HOUR);
    assert_eq!(late.not_after.unix_timestamp().unsigned_abs(), LAST_DAY.as_secs());
    for refused in [Duration::ZERO, MAX_VALIDITY + Duration::from_secs(1)] {
        let error = folder.authority.issue(&agent(), &node(), refused).unwrap_err();
        assert!(error.to_string().contains("825 days, 90 by default"), "{error}");
    }
    assert!(folder.authority.issue(&agent(), &node(), MAX_VALIDITY).is_ok());
}

#[test]
fn nothing_is_ever_overwritten() {
    let folder = Folder::new();
    let ca = folder.root.path().join("ca");
    let key = fs::read(ca.join("ca.key")).unwrap();
    assert!(matches!(Authority::create(&ca), Err(AuthorityError::Exists { .. })));
    let issued = folder.authority.issue(&agent(), &node(), HOUR).unwrap();
    let path = folder.save(&issued, "node.pem");
    let refused =
        issued.save(&folder.root.path().join("other.pem"), &path.with_extension("key")).unwrap_err();
    assert!(refused.to_string().contains("node.key is there already"), "{refused}");
    assert_eq!(fs::read(ca.join("ca.key")).unwrap(), key);
}

#[cfg(unix)]
#[test]
fn keys_are_for_the_user_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    let path = folder.save(&folder.authority.issue(&agent(), &node(), HOUR).unwrap(), "node.pem");
    let ca = folder.root.path().join("ca");
    for (path, mode) in [(&ca, 0o700), (&ca.join("ca.key"), 0o600), (&path.with_extension("key"), 0o600)] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, mode, "{}", path.display());
    }
}

#[test]
fn an_authority_that_is_opened_again_issues_for_the_same_trust() {
    let folder = Folder::new();
    let again = Authority::open(&folder.root.path().join("ca")).unwrap();
    assert_eq!(again.certificate(), folder.authority.certificate());
    let path = folder.save(&again.issue(&agent(), &node(), HOUR).unwrap(), "node.pem");
    assert!(folder.authority.renew(&path, HOUR).is_ok());
}

#[test]
fn a_folder_of_another_key_or_without_one_is_refused() {
    let (one, other) = (Folder::new(), Folder::new());
    let ca = one.root.path().join("ca");
    fs::copy(other.root.path().join("ca/ca.key"), ca.join("ca.key")).unwrap();
    let refused = Authority::open(&ca).unwrap_err().to_string();
    assert!(refused.contains("ca.key is not the key of ca.pem"), "{refused}");
    fs::remove_file(ca.join("ca.key")).unwrap();
    assert!(Authority::open(&ca).unwrap_err().to_string().contains("ca.key cannot be read"));
}

#[test]
fn a_renewed_certificate_keeps_agent_and_node_and_gets_a_new_number() {
    let folder = Folder::new();
    let path = folder.save(&folder.authority.issue(&agent(), &node(), HOUR).unwrap(), "node.pem");
    let old = folder.authority.show(&path).unwrap();
    folder.authority.renew(&path, 2 * HOUR).unwrap().replace(&path, &path.with_extension("key")).unwrap();
    let new = folder.authority.show(&path).unwrap();
    assert_eq!(new.agent, old.agent);
    assert!(new.serial != old.serial && new.not_after > old.not_after);
}

#[test]
fn only_own_certificates_that_are_not_revoked_are_renewed() {
    let (one, other) = (Folder::new(), Folder::new());
    let foreign = other.save(&other.authority.issue(&agent(), &node(), HOUR).unwrap(), "node.pem");
    let refused = one.authority.renew(&foreign, HOUR).unwrap_err();
    assert!(refused.to_string().contains("did not issue it"), "{refused}");
    let serial = other.authority.show(&foreign).unwrap().serial;
    other.authority.revoke(&serial).unwrap();
    let refused = other.authority.renew(&foreign, HOUR).unwrap_err();
    assert!(refused.to_string().contains("it is revoked"), "{refused}");
}

#[test]
fn what_was_revoked_stays_revoked() {
    let folder = Folder::new();
    let issue = |name| folder.save(&folder.authority.issue(&agent(), &node(), HOUR).unwrap(), name);
    let (first, second) = (issue("first.pem"), issue("second.pem"));
    let serial = |path: &Path| folder.authority.show(path).unwrap().serial;
    assert!(folder.authority.revoke(&serial(&first).to_uppercase()).unwrap());
    assert!(!folder.authority.revoke(&serial(&first)).unwrap(), "it was revoked before");
    assert!(folder.authority.show(&first).unwrap().is_revoked);
    assert!(!folder.authority.show(&second).unwrap().is_revoked);
    assert!(folder.authority.revoke(&serial(&second)).unwrap());
    let again = Authority::open(&folder.root.path().join("ca")).unwrap();
    assert!(again.show(&first).unwrap().is_revoked && again.show(&second).unwrap().is_revoked);
    assert_eq!(
        RevocationList::read(&again.crl_path()).unwrap().number,
        3,
        "each list has a number above the one before"
    );
}

#[test]
fn a_key_is_never_printed() {
    let folder = Folder::new();
    let issued = folder.authority.issue(&agent(), &node(), HOUR).unwrap();
    assert!(!format!("{issued:?} {:?}", folder.authority).contains("PRIVATE"));
}
