use std::ffi::OsStr;
use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use tool_retries::digest::sha256_hex;

use super::{Failure, Printer};

/// How the names of the files begin that are to be renamed to a record.
const BESIDE_BEGINS: &str = ".tool-retries-";
const BESIDE_ENDS: &str = ".tmp";

/// As many links as Linux follows.
const MOST_LINKS: usize = 40;

/// Where a record goes. A file is replaced as a whole: the record is written beside it and renamed,
/// so that whoever reads finds the old text or the new one, whenever this program ends. What is no
/// file, such as a terminal or a pipe, is written to as it is.
pub(super) struct OutputFile {
    path: PathBuf,
    place: Place,
}

enum Place {
    /// What standard output goes to, whatever that is: between what is printed.
    StandardOutput,
    /// The same of standard error.
    StandardError,
    Open(File),
    Replaced {
        beside: NamedTempFile,
        target: PathBuf,
    },
}

impl OutputFile {
    /// Does all that can fail but for the writing.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let place = Place::of(path).map_err(|error| cannot_be_written(path, error))?;
        Ok(Self {
            path: path.to_owned(),
            place,
        })
    }

    /// Writes the record.
    pub(super) fn write(self, record: &str, out: &mut Printer<'_>) -> Result<(), Failure> {
        let written = match self.place {
            Place::StandardOutput => {
                out.text(record);
                Ok(())
            }
            Place::StandardError => io::stderr().write_all(record.as_bytes()),
            Place::Open(mut file) => file.write_all(record.as_bytes()),
            Place::Replaced { beside, target } => replace(&target, beside, record),
        };
        written.map_err(|error| cannot_be_written(&self.path, error))
    }
}

fn cannot_be_written(path: &Path, error: io::Error) -> Failure {
    Failure::at(path, format_args!("cannot be written: {error}"))
}

impl Place {
    fn of(path: &Path) -> io::Result<Self> {
        let found = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            found => Some(found?),
        };
        if let Some(found) = &found {
            if is_open_as(found, &io::stdout()) {
                return Ok(Self::StandardOutput);
            }
            if is_open_as(found, &io::stderr()) {
                return Ok(Self::StandardError);
            }
        }
        let target = match follow(path)? {
            // The file that is open there may have no name.
            Followed::Descriptor => {
                return Ok(Self::Open(File::options().append(true).open(path)?));
            }
            Followed::Path(target) => target,
        };
        match &found {
            Some(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Some(found) if !found.is_file() => {
                return Ok(Self::Open(File::options().write(true).open(path)?));
            }
            // Renaming asks only whether the folder may be written.
            Some(found) if found.permissions().readonly() => {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            Some(_) => drop(File::options().write(true).open(&target)?),
            None if target.as_os_str().as_encoded_bytes().ends_with(b"/") => {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            None => {}
        }
        let beside = beside(&target, found.is_some())?;
        Ok(Self::Replaced { beside, target })
    }
}

/// Whether this file is what a stream of ours goes to.
#[cfg(unix)]
fn is_open_as(found: &Metadata, stream: &impl std::os::fd::AsFd) -> bool {
    use std::os::unix::fs::MetadataExt;
    let open = stream.as_fd().try_clone_to_owned().map(File::from);
    let open = open.and_then(|open| open.metadata());
    open.is_ok_and(|open| (open.dev(), open.ino()) == (found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn is_open_as<T>(_: &Metadata, _: &T) -> bool {
    false
}

enum Followed {
    /// No link, though maybe nothing either.
    Path(PathBuf),
    /// A file that a process holds open, such as `/dev/fd/3`.
    Descriptor,
}

/// Follows links, to where nothing is too.
fn follow(path: &Path) -> io::Result<Followed> {
    let mut path = path.to_owned();
    for _ in 0..=MOST_LINKS {
        let folder = folder_of(&path);
        if cfg!(unix)
            && fs::canonicalize(folder).is_ok_and(|folder| {
                folder == Path::new("/dev/fd")
                    || folder.starts_with("/proc") && folder.ends_with("fd")
            })
        {
            return Ok(Followed::Descriptor);
        }
        match fs::read_link(&path) {
            Ok(target) => path = folder.join(target),
            Err(_) => return Ok(Followed::Path(path)),
        }
    }
    Err(io::Error::other("too many links"))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != OsStr::new("") => folder,
        _ => Path::new("."),
    }
}

/// An empty file beside this one, ours alone. Those of runs that live no more are taken away.
fn beside(target: &Path, exists: bool) -> io::Result<NamedTempFile> {
    let folder = folder_of(target);
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    // A digest: the name itself may be as long as a name can be.
    let digest = sha256_hex(&name.to_string_lossy());
    let begins = format!("{BESIDE_BEGINS}{}-", &digest[..16]);
    take_away_leftovers(folder, &begins);
    let mut builder = tempfile::Builder::new();
    builder.prefix(&begins).suffix(BESIDE_ENDS);
    // One that takes the place of another gets its mode, and until then nobody else reads it.
    #[cfg(unix)]
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    #[cfg(unix)]
    if !exists {
        builder.permissions(permissions);
    }
    loop {
        // The crate's own message names its file, which nobody asked for.
        let beside = builder
            .tempfile_in(folder)
            .map_err(|error| io::Error::from(error.kind()))?;
        // Another run may have come before the lock, and taken it for a leftover.
        let locked = !matches!(beside.as_file().try_lock(), Err(TryLockError::WouldBlock));
        if locked && beside.path().try_exists()? {
            return Ok(beside);
        }
    }
}

/// Whoever writes a file beside the record holds a lock on it, which ends with the process.
fn take_away_leftovers(folder: &Path, begins: &str) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if !is_file || !name.starts_with(begins) || !name.ends_with(BESIDE_ENDS) {
            continue;
        }
        // What cannot be locked or taken away stays: it is in nobody's way.
        if let Ok(file) = File::options().write(true).open(entry.path())
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn replace(target: &Path, mut beside: NamedTempFile, record: &str) -> io::Result<()> {
    if let Ok(found) = fs::metadata(target) {
        #[cfg(unix)]
        keep_owner(beside.as_file(), &found);
        beside.as_file().set_permissions(found.permissions())?;
    }
    beside.write_all(record.as_bytes())?;
    beside.as_file().sync_all()?;
    beside.persist(target)?;
    Ok(())
}

/// As far as this user may; before the mode, which a change of owner cuts down.
#[cfg(unix)]
fn keep_owner(beside: &File, found: &Metadata) {
    use std::os::unix::fs::{MetadataExt, fchown};
    if let Ok(ours) = beside.metadata()
        && (ours.uid(), ours.gid()) != (found.uid(), found.gid())
    {
        let _ = fchown(beside, Some(found.uid()), Some(found.gid()));
    }
}
