//! `hermes-peer certs`: an authority in a folder and what it issues. No key is ever printed.

mod show;
mod when;

use std::path::Path;
use std::path::PathBuf;

use hermes_peer::certificates::Authority;
use hermes_peer::certificates::AuthorityError;
use hermes_peer::certificates::CertificateFacts;
use hermes_peer::certificates::PemError;
use hermes_peer::certificates::Utc;

use crate::args::AuthorityFolder;
use crate::args::CertsVerb;
use crate::args::Issue;
use crate::args::Renew;
use crate::args::Revoke;
use crate::exit::Failure;
use crate::outcome::Outcome;
use crate::output::Output;

pub(crate) use when::relative;

/// Runs the verb.
pub(crate) fn run(verb: &CertsVerb, is_json: bool, out: &mut Output) -> Result<(), Failure> {
    match verb {
        CertsVerb::Init { dir } => init(dir)?.print(is_json, out),
        CertsVerb::Issue(args) => issue(args)?.print(is_json, out),
        CertsVerb::Renew(args) => renew(args)?.print(is_json, out),
        CertsVerb::Revoke(args) => revoke(args)?.print(is_json, out),
        CertsVerb::Show { files, authority } => show::run(files, authority, is_json, out),
    }
}

fn init(dir: &Path) -> Result<Outcome, Failure> {
    let authority = Authority::create(dir).map_err(refused)?;
    let here = if dir == Path::new("certs") { String::new() } else { format!(" --ca {}", dir.display()) };
    Ok(Outcome::new(format!("made an authority in {}", dir.display()))
        .file(&authority.ca_path(), "its certificate: every node needs a copy (`auth.ca`)")
        .file(&dir.join("ca.key"), "its key: whoever has it can be any agent; it stays here")
        .file(&authority.crl_path(), "what it revoked: every node needs a copy (`auth.crl`)")
        .next(format!(
            "next: hermes-peer certs issue{here} --agent agent://default/support/nlu --node nlu-agent-01"
        )))
}

fn issue(args: &Issue) -> Result<Outcome, Failure> {
    let authority = open(&args.authority)?;
    let folder = args.out.as_ref().unwrap_or(&args.authority.ca);
    let [cert, key] = ["pem", "key"].map(|end| folder.join(format!("{}.{end}", args.node)));
    if let Some(there) = [&cert, &key].into_iter().find(|path| path.exists()) {
        return Err(Failure::usage(format!(
            "{} is there already, and is not overwritten; `hermes-peer certs renew {}` replaces a certificate, --out names another folder",
            there.display(),
            cert.display()
        )));
    }
    if !folder.is_dir() {
        return Err(Failure::usage(format!("there is no folder {}", folder.display())));
    }
    let issued = authority.issue(&args.agent, &args.node, args.validity.duration).map_err(refused)?;
    issued.save(&cert, &key).map_err(refused)?;
    authority.refresh_list().map_err(refused)?;
    let facts = load(&cert)?;
    Ok(Outcome::new(format!("issued a certificate for {} of {}", args.node, args.agent))
        .file(&cert, described(&facts))
        .file(&key, "its private key, readable by you alone")
        .next("next: name both in the node's configuration, with the authority's certificate and list:")
        .next(auth_line(&authority, &cert, &key)))
}

/// The line of the configuration, as it stands if the file is in the folder where the command ran.
fn auth_line(authority: &Authority, cert: &Path, key: &Path) -> String {
    format!(
        "  auth: {{ mode: mtls, ca: {}, crl: {}, cert: {}, key: {} }}",
        authority.ca_path().display(),
        authority.crl_path().display(),
        cert.display(),
        key.display()
    )
}

fn renew(args: &Renew) -> Result<Outcome, Failure> {
    let authority = open(&args.authority)?;
    let key = args.key.clone().unwrap_or_else(|| args.file.with_extension("key"));
    let old = load(&args.file)?;
    if !key.is_file() {
        return Err(Failure::usage(format!(
            "there is no key {} to be replaced together with the certificate; name it with --key",
            key.display()
        )));
    }
    let issued = authority.renew(&args.file, args.validity.duration).map_err(refused)?;
    issued.replace(&args.file, &key).map_err(refused)?;
    authority.refresh_list().map_err(refused)?;
    let new = load(&args.file)?;
    Ok(Outcome::new(format!("renewed {}", args.file.display()))
        .file(&args.file, format!("replaced: {}", described(&new)))
        .file(&key, "replaced: its private key, readable by you alone")
        .next("a node that runs takes both up by itself within seconds")
        .next(format!(
            "the certificate before stays valid until {} ({}); `hermes-peer certs revoke {}` ends that",
            Utc(old.not_after),
            relative(old.not_after),
            old.serial
        )))
}

fn revoke(args: &Revoke) -> Result<Outcome, Failure> {
    let authority = open(&args.authority)?;
    let path = PathBuf::from(&args.certificate);
    let (serial, shown) = if path.exists() {
        let facts = load(&path)?;
        check_issuer(&path, &facts, &authority)?;
        let shown = format!("{} (serial {})", path.display(), facts.serial);
        (facts.serial, shown)
    } else {
        (args.certificate.clone(), format!("serial {}", args.certificate))
    };
    let is_new = authority.revoke(&serial).map_err(|error| match error {
        AuthorityError::Serial { .. } => {
            Failure::usage(format!("there is no file {}, and as a serial number: {error}", path.display()))
        }
        error => refused(error),
    })?;
    if !is_new {
        return Ok(Outcome::new(format!("{shown} was revoked before; nothing was changed")));
    }
    Ok(Outcome::new(format!("revoked {shown}"))
        .file(&authority.crl_path(), "the list with it: nodes on other machines need this copy")
        .next("nodes that read the list close its links within a minute"))
}

/// A list revokes what its own authority issued and nothing else.
fn check_issuer(path: &Path, facts: &CertificateFacts, authority: &Authority) -> Result<(), Failure> {
    let own = load(&authority.ca_path())?;
    if facts.is_authority {
        return Err(Failure::usage(format!(
            "{} is an authority's own certificate; to stop trusting it, take it out of `auth.ca` on every node",
            path.display()
        )));
    }
    if own.issuer != facts.issuer {
        return Err(Failure::usage(format!(
            "{} was issued by {}, and the authority in {} is {}; name the right one with --ca",
            path.display(),
            facts.issuer,
            authority.ca_path().display(),
            own.issuer
        )));
    }
    Ok(())
}

fn open(folder: &AuthorityFolder) -> Result<Authority, Failure> {
    let path = &folder.ca;
    if !path.join("ca.pem").exists() {
        return Err(Failure::usage(format!(
            "there is no authority in {}; make one with `hermes-peer certs init {}`, or name its folder with --ca",
            path.display(),
            path.display()
        )));
    }
    Authority::open(path).map_err(refused)
}

fn load(path: &Path) -> Result<CertificateFacts, Failure> {
    CertificateFacts::load(path).map_err(|error| match error {
        // The sentence for configuration files would lead astray here.
        PemError::Unreadable { path, why, .. } => {
            Failure::usage(format!("cannot read {}: {why}", path.display()))
        }
        error => Failure::usage(error.to_string()),
    })
}

fn described(facts: &CertificateFacts) -> String {
    format!("serial {}, valid until {} ({})", facts.serial, Utc(facts.not_after), relative(facts.not_after))
}

/// Everything that an authority refuses is the user's to mend.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(crate) fn refused(error: AuthorityError) -> Failure {
    Failure::usage(error.to_string())
}
