use std::fs;
use std::path::Path;

use super::*;
use crate::transport::authority::Authority;
use crate::transport::authority::IssuedPem;
use crate::transport::memory;

struct Folder {
    root: tempfile::TempDir,
    authority: Authority,
}

impl Folder {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let authority = Authority::create(&root.path().join("ca")).unwrap();
        let folder = Self { root, authority };
        let files = folder.files();
        folder.issue().save(&files.cert, &files.key).unwrap();
        folder
    }

    fn files(&self) -> TlsFiles {
        TlsFiles {
            ca: self.authority.ca_path(),
            cert: self.root.path().join("node.pem"),
            key: self.root.path().join("node.key"),
            crl: Some(self.authority.crl_path()),
        }
    }

    fn issue(&self) -> IssuedPem {
        let agent = "agent://default/support/nlu".parse().unwrap();
        self.authority.issue(&agent, &"nlu-01".parse().unwrap(), Duration::from_secs(3600)).unwrap()
    }

    fn context(&self) -> TlsContext {
        TlsContext::from_files(self.files()).unwrap()
    }
}

fn serial(context: &TlsContext) -> String {
    context.own().unwrap().serial
}

#[test]
fn a_pair_that_does_not_fit_is_told_once_and_the_last_good_one_serves() {
    // FC-025
    let folder = Folder::new();
    let files = folder.files();
    let context = folder.context();
    assert_eq!(context.warnings(), Vec::<String>::new());
    let before = serial(&context);
    assert_eq!(context.check_files(), None);

    let next = folder.issue();
    fs::write(&files.cert, &next.cert).unwrap();
    let Some(Reload::Refused { why }) = context.check_files() else {
        panic!("a half-written pair was taken up")
    };
    assert!(why.contains("not a pair") && why.contains("node.pem"), "{why}");
    assert_eq!((context.check_files(), serial(&context)), (None, before.clone()));

    fs::write(&files.key, &next.key).unwrap();
    let Some(Reload::Reloaded { serial: now, .. }) = context.check_files() else { panic!("the pair fits") };
    assert_ne!(now, before);
    assert_eq!((serial(&context), context.check_files()), (now, None));
}

#[test]
fn garbage_is_refused_with_its_path_and_leaves_everything_as_it_was() {
    // FC-025
    let folder = Folder::new();
    let context = folder.context();
    let before = serial(&context);
    let good = fs::read(folder.files().cert).unwrap();
    fs::write(folder.files().cert, "garbage").unwrap();
    assert!(
        matches!(context.check_files(), Some(Reload::Refused { why }) if why.contains("node.pem holds no PEM text"))
    );
    fs::write(folder.files().cert, "other garbage").unwrap();
    assert_eq!(context.check_files(), None, "one line until it fits");
    fs::write(folder.files().cert, good).unwrap();
    assert!(matches!(context.check_files(), Some(Reload::Reloaded { serial, .. }) if serial == before));
}

#[test]
fn a_revocation_list_is_needed_at_start_and_the_last_good_one_stays() {
    let folder = Folder::new();
    let context = folder.context();
    let list = folder.authority.crl_path();
    let good = fs::read(&list).unwrap();
    fs::remove_file(&list).unwrap();
    assert!(
        TlsContext::from_files(folder.files()).unwrap_err().to_string().contains("ca.crl.pem cannot be read")
    );
    assert!(matches!(context.check_files(), Some(Reload::Refused { .. })));
    fs::write(&list, "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n").unwrap();
    assert!(TlsContext::from_files(folder.files()).unwrap_err().to_string().contains("revocation list"));
    fs::write(&list, good).unwrap();
    assert!(matches!(context.check_files(), Some(Reload::Reloaded { .. })));
}

#[tokio::test]
async fn what_is_revoked_is_refused_from_the_next_look_on_live_links_too() {
    let folder = Folder::new();
    let (us, peer) = (folder.context(), folder.context());
    let (near, far) = memory::pair();
    let (link, _far) = tokio::join!(us.connect(near), peer.accept(far));
    let link = link.unwrap();
    assert!(us.is_still_good(link.peer_chain()).is_ok());
    assert!(folder.authority.revoke(&serial(&peer)).unwrap());
    let Some(Reload::Reloaded { warnings, .. }) = us.check_files() else { panic!("the list changed") };
    assert!(warnings[0].contains("peers will refuse this node's own certificate"), "{warnings:?}");
    assert!(matches!(us.is_still_good(link.peer_chain()), Err(TlsError::Revoked { .. })));
    let (near, far) = memory::pair();
    let (refused, _) = tokio::join!(us.connect(near), peer.accept(far));
    assert!(matches!(refused, Err(TlsError::Revoked { .. })));
}

#[tokio::test]
async fn nodes_move_from_one_authority_to_the_next_without_a_moment_of_refusal() {
    // FC-025: bundle on all, then leaves, then the old one goes. Only the old authority has a list at first.
    let old = Folder::new();
    let next = Authority::create(&old.root.path().join("next")).unwrap();
    let bundle = old.root.path().join("bundle.pem");
    let text = |path: &Path| fs::read_to_string(path).unwrap();
    fs::write(&bundle, text(&old.authority.ca_path()) + &text(&next.ca_path())).unwrap();
    let moved = Folder::new();
    let (cert, key) = (moved.root.path().join("next.pem"), moved.root.path().join("next.key"));
    let agent = "agent://default/support/nlu".parse().unwrap();
    next.issue(&agent, &"b".parse().unwrap(), Duration::from_secs(3600)).unwrap().save(&cert, &key).unwrap();
    let crl = Some(old.authority.crl_path());
    let on_old =
        TlsContext::from_files(TlsFiles { ca: bundle.clone(), crl: crl.clone(), ..old.files() }).unwrap();
    let on_next = TlsContext::from_files(TlsFiles { ca: bundle, crl, cert, key }).unwrap();
    for (client, server) in [(&on_old, &on_next), (&on_next, &on_old), (&on_next, &on_next)] {
        let (near, far) = memory::pair();
        let (client, server) = tokio::join!(client.connect(near), server.accept(far));
        assert!(client.is_ok() && server.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_reports_what_changed_and_ends_with_its_listener() {
    let folder = Folder::new();
    let context = folder.context();
    let (sender, mut events) = mpsc::channel(1);
    let watch = tokio::spawn(context.clone().watch(WATCH_EVERY, sender));
    let files = folder.files();
    folder.issue().replace(&files.cert, &files.key).unwrap();
    assert!(
        matches!(events.recv().await, Some(Reload::Reloaded { serial: now, .. }) if now == serial(&context))
    );
    drop(events);
    watch.await.unwrap();
}

#[cfg(unix)]
#[test]
fn a_key_that_others_can_read_is_reported() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    fs::set_permissions(folder.files().key, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(folder.context().warnings()[0].contains("chmod 600"));
}

#[tokio::test]
async fn processes_with_certificates_of_their_own_authority_meet_and_follow_its_list() {
    let folder = Folder::new();
    let issued = |node: &str| {
        let agent = "agent://default/support/nlu".parse().unwrap();
        TlsContext::issued_by(folder.authority.folder().to_owned(), agent, node.parse().unwrap()).unwrap()
    };
    let (a, b) = (issued("a"), issued("b"));
    let (near, far) = memory::pair();
    let (near, far) = tokio::join!(a.connect(near), b.accept(far));
    assert!(near.is_ok() && far.is_ok());
    assert_eq!(a.check_files(), None);
    let before = serial(&a);
    folder.authority.revoke(&before).unwrap();
    let Some(Reload::Reloaded { serial: now, .. }) = a.check_files() else { panic!("the list changed") };
    assert_ne!(now, before, "a certificate that was revoked is replaced");
    assert!(matches!(b.check_files(), Some(Reload::Reloaded { .. })));
}

#[test]
fn a_certificate_of_ones_own_authority_is_replaced_at_half_of_its_life() {
    let folder = Folder::new();
    let (agent, node): (AgentUri, NodeId) =
        ("agent://default/support/nlu".parse().unwrap(), "a".parse().unwrap());
    let context =
        TlsContext::issued_by(folder.authority.folder().to_owned(), agent.clone(), node.clone()).unwrap();
    let short =
        folder.authority.issue(&agent, &node, DEFAULT_VALIDITY / 2 - Duration::from_secs(60)).unwrap();
    let files = TlsFiles {
        cert: folder.root.path().join("s.pem"),
        key: folder.root.path().join("s.key"),
        ..folder.files()
    };
    short.save(&files.cert, &files.key).unwrap();
    let old = TlsContext::from_files(files).unwrap().current();
    context.shared.current.store(Arc::clone(&old));
    assert!(
        matches!(context.check_files(), Some(Reload::Reloaded { serial, .. }) if serial != old.own().unwrap().serial)
    );
    assert_eq!(context.check_files(), None);
}
