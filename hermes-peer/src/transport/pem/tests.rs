use super::*;

// FC-023

/// Keys made by OpenSSL for this test and used nowhere else would look like leaked ones: they are made at run time.
fn pkcs8() -> String {
    rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap().serialize_pem()
}

fn certificate() -> String {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    rcgen::CertificateParams::default().self_signed(&key).unwrap().pem()
}

/// The same section under another name: what OpenSSL writes for other kinds of keys.
fn relabelled(label: &str) -> String {
    pkcs8().replace("PRIVATE KEY", label)
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join("file.pem");
        fs::write(&path, content).unwrap();
        #[cfg(unix)]
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        path
    }

    fn key(&self, content: impl AsRef<[u8]>) -> Result<LoadedKey, PemError> {
        PemFile::read(&self.file(content), Wanted::Key).key()
    }

    fn key_refusal(&self, content: impl AsRef<[u8]>) -> String {
        let text = self.key(content).unwrap_err().to_string();
        assert!(text.starts_with(self.0.path().to_str().unwrap()), "the path comes first: {text}");
        assert!(text.contains("wanted a private key"), "{text}");
        text
    }
}

#[test]
fn keys_of_all_three_kinds_are_read() {
    let folder = Folder::new();
    assert!(matches!(folder.key(pkcs8()).unwrap().key, PrivateKeyDer::Pkcs8(_)));
    assert!(matches!(folder.key(relabelled("RSA PRIVATE KEY")).unwrap().key, PrivateKeyDer::Pkcs1(_)));
    let sec1 = format!(
        "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n{}",
        relabelled("EC PRIVATE KEY")
    );
    assert!(matches!(folder.key(sec1).unwrap().key, PrivateKeyDer::Sec1(_)));
}

#[test]
fn line_ends_of_windows_and_a_certificate_beside_the_key_do_no_harm() {
    let folder = Folder::new();
    assert!(folder.key(pkcs8().replace('\n', "\r\n")).is_ok());
    let both = certificate() + &pkcs8();
    assert!(folder.key(&both).is_ok());
    let file = PemFile::read(&folder.file(&both), Wanted::Certificate);
    assert_eq!(file.certificates().unwrap().len(), 1);
}

#[test]
fn a_file_that_holds_no_key_is_refused_with_what_it_holds() {
    let folder = Folder::new();
    for (content, found) in [
        (String::new(), "nothing (it is empty)"),
        ("\n\n".to_owned(), "nothing (it is empty)"),
        ("hello".to_owned(), "no PEM text"),
        (certificate(), "`CERTIFICATE`"),
        (pkcs8() + &pkcs8(), "2 private keys"),
        (pkcs8().replace("-----END", "-----AND"), "damaged"),
    ] {
        let text = folder.key_refusal(content);
        assert!(text.contains(&format!("holds {found}")) || text.contains(found), "{text}");
    }
}

#[test]
fn an_encrypted_key_is_answered_with_the_line_that_decrypts_it() {
    let folder = Folder::new();
    let by_header = pkcs8().replace(
        "-----BEGIN PRIVATE KEY-----\n",
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n",
    );
    let by_header = by_header.replace("END PRIVATE KEY", "END RSA PRIVATE KEY");
    for content in [relabelled("ENCRYPTED PRIVATE KEY"), by_header] {
        let text = folder.key_refusal(content);
        assert!(text.contains("encrypted private key") && text.contains("try `openssl pkey -in "), "{text}");
    }
}

#[test]
fn binary_files_are_answered_with_the_line_that_converts_them() {
    let folder = Folder::new();
    let key = rcgen::KeyPair::generate().unwrap();
    let text = folder.key_refusal(key.serialized_der());
    assert!(text.contains("try `openssl pkey -inform der -in "), "{text}");
    let der = rcgen::CertificateParams::default().self_signed(&key).unwrap().der().to_vec();
    let text = PemFile::read(&folder.file(der), Wanted::Certificate).certificates().unwrap_err().to_string();
    assert!(text.contains("try `openssl x509 -inform der -in "), "{text}");
}

#[test]
fn a_key_is_no_certificate_and_no_list() {
    let folder = Folder::new();
    let path = folder.file(pkcs8());
    let text = PemFile::read(&path, Wanted::Certificate).certificates().unwrap_err().to_string();
    assert!(text.contains("holds `PRIVATE KEY`; wanted a certificate"), "{text}");
    let text = PemFile::read(&path, Wanted::RevocationList).revocation_lists().unwrap_err().to_string();
    assert!(text.contains("wanted a revocation list"), "{text}");
}

#[test]
fn a_path_that_is_no_file_is_named_in_full() {
    let folder = Folder::new();
    let text = PemFile::read(folder.0.path(), Wanted::Key).key().unwrap_err().to_string();
    assert!(text.contains("directory"), "{text}");
    let text = PemFile::read(Path::new("no/such.key"), Wanted::Key).key().unwrap_err().to_string();
    let full = std::env::current_dir().unwrap().join("no/such.key");
    assert!(text.starts_with(full.to_str().unwrap()) && text.contains("relative"), "{text}");
    let text = folder.key_refusal_of_length(MAX_FILE as usize + 1);
    assert!(text.contains("longer than"), "{text}");
}

impl Folder {
    fn key_refusal_of_length(&self, length: usize) -> String {
        self.key_refusal(vec![b'\n'; length])
    }
}

#[cfg(unix)]
#[test]
fn a_key_that_others_can_read_is_used_with_a_warning() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    let path = folder.file(pkcs8());
    assert_eq!(PemFile::read(&path, Wanted::Key).key().unwrap().warning, None);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let warning = PemFile::read(&path, Wanted::Key).key().unwrap().warning.unwrap();
    assert!(warning.contains("0644") && warning.contains("chmod 600"), "{warning}");
}

#[test]
fn a_loaded_key_prints_nothing_of_itself() {
    let folder = Folder::new();
    let text = format!("{:?}", folder.key(pkcs8()).unwrap());
    assert_eq!(text, "LoadedKey { warning: None, .. }");
}
