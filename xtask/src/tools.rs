//! Programs that the build needs: finding them, and installing what is missing.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};

/// The target that the page's module is compiled for.
pub const WASM: &str = "wasm32-unknown-unknown";

/// Tells on standard error what the build is doing, so that standard output holds results only.
pub fn say(message: impl AsRef<str>) {
    eprintln!("xtask: {}", message.as_ref());
}

/// The root of the workspace.
pub fn root() -> PathBuf {
    // cargo sets the variable for `cargo run`; the compiled-in value serves a binary started by hand.
    let xtask = env::var_os("CARGO_MANIFEST_DIR")
        .map(PathBuf::from)
        .filter(|dir| dir.join("binaryen/package-lock.json").is_file())
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    match xtask.parent() {
        Some(root) => root.to_path_buf(),
        None => xtask,
    }
}

/// The cargo that runs this program, or the one on the path.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// The first executable file of that name on the path.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|file| {
            fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0)
        })
}

/// The command as one would type it.
pub fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(
        command
            .get_args()
            .map(|arg| arg.to_string_lossy().into_owned()),
    );
    words.join(" ")
}

/// Runs a command with its output passed through, and fails unless it succeeds.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start `{}`", shown(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", shown(command));
    }
    Ok(())
}

/// The standard output of a command that succeeds.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::piped())
        .output()
        .with_context(|| format!("cannot start `{}`", shown(command)))?;
    if !output.status.success() {
        bail!(
            "`{}` failed ({}): {}",
            shown(command),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Each held by whoever installs, since others may be about to install the same: they look again when it is their turn.
static APT_GET: Mutex<()> = Mutex::new(());
static NPM: Mutex<()> = Mutex::new(());
static RUSTUP: Mutex<()> = Mutex::new(());
static CARGO_INSTALL: Mutex<()> = Mutex::new(());

fn turn(of: &Mutex<()>) -> MutexGuard<'_, ()> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Installs Debian packages if this is Debian and we are root; otherwise fails with the command to run. Its turn is taken.
fn apt_get(packages: &[&str], why: &str) -> Result<()> {
    static UPDATED: AtomicBool = AtomicBool::new(false);
    let list = packages.join(" ");
    let is_root = fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0);
    let is_debian = Path::new("/etc/debian_version").exists() && find("apt-get").is_some();
    if !(is_root && is_debian) {
        bail!(
            "{why}. On Debian, as root, run:\n    apt-get update && apt-get install --yes --no-install-recommends {list}"
        );
    }
    say(format!("{why}; installing {list} with apt-get"));
    let apt = |args: &[&str]| {
        // apt-get prints hundreds of lines that nobody reads unless it fails.
        output(
            Command::new("apt-get")
                .args(["--quiet=2", "--yes"])
                .args(args)
                .env("DEBIAN_FRONTEND", "noninteractive"),
        )
    };
    if !UPDATED.load(Ordering::Relaxed) {
        apt(&["update"])?;
        UPDATED.store(true, Ordering::Relaxed);
    }
    let mut install = vec!["install", "--no-install-recommends"];
    install.extend(packages);
    apt(&install)?;
    Ok(())
}

/// Makes sure that a component of the toolchain, such as clippy, is there.
pub fn ensure_component(component: &str, probe: &[&str]) -> Result<()> {
    let _turn = turn(&RUSTUP);
    if output(cargo().args(probe)).is_ok() {
        return Ok(());
    }
    if find("rustup").is_none() {
        bail!(
            "`cargo {}` does not work, and there is no rustup to install {component} with",
            probe.join(" ")
        );
    }
    say(format!("installing {component} with rustup"));
    run(Command::new("rustup")
        .args(["component", "add", component])
        .current_dir(root()))
}

fn has_wasm_target() -> bool {
    let Ok(dir) = output(
        Command::new("rustc")
            .args(["--print", "target-libdir", "--target", WASM])
            .current_dir(root()),
    ) else {
        return false;
    };
    fs::read_dir(dir).is_ok_and(|entries| {
        entries
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().starts_with("libcore-"))
    })
}

/// Makes sure that rustc has the standard library for wasm32.
pub fn ensure_wasm_target() -> Result<()> {
    let _turn = turn(&RUSTUP);
    if has_wasm_target() {
        return Ok(());
    }
    if find("rustup").is_some() {
        say(format!("installing the target {WASM} with rustup"));
        let added = run(Command::new("rustup")
            .args(["target", "add", WASM])
            .current_dir(root()));
        if added.is_ok() && has_wasm_target() {
            return Ok(());
        }
    }
    // Not done here: those packages put a second cargo and rustc on the machine.
    bail!(
        "rustc has no standard library for {WASM}, and rustup is absent or could not fetch it.\n\
         Debian's packages can build the module, as root:\n    \
         apt-get update && apt-get install --yes --no-install-recommends rustc-web cargo-web rust-web-src lld-22\n    \
         PATH=/usr/bin:$PATH CC_wasm32_unknown_unknown=clang-19 AR_wasm32_unknown_unknown=ar \\\n      \
         RUSTC_BOOTSTRAP=1 /usr/bin/cargo build -Zbuild-std=std,panic_abort --lib --profile wasm --target {WASM} --locked\n\
         Then:\n    \
         cargo xtask site --module target/{WASM}/wasm/tool_retries.wasm"
    )
}

/// The C compiler and archiver for wasm32.
pub struct CTools {
    /// Clang with the wasm32 target.
    pub cc: PathBuf,
    /// An archiver. Plain `ar` writes no symbol index for wasm objects, which rustc does not need.
    pub ar: PathBuf,
}

/// Whether this compiler really makes wasm32 objects; a clang can lack the target or its own headers.
fn compiles_wasm(cc: &Path) -> bool {
    let Ok(dir) = tempfile::tempdir() else {
        return false;
    };
    let source = dir.path().join("probe.c");
    let object = dir.path().join("probe.o");
    let text =
        "#include <stdarg.h>\n#include <stddef.h>\nsize_t twice(size_t n) { return n + n; }\n";
    if fs::write(&source, text).is_err() {
        return false;
    }
    let mut command = Command::new(cc);
    command
        .arg(format!("--target={WASM}"))
        .arg("-c")
        .arg(&source)
        .arg("-o")
        .arg(&object);
    output(&mut command).is_ok() && fs::read(&object).is_ok_and(|bytes| bytes.starts_with(b"\0asm"))
}

fn find_clang() -> Option<PathBuf> {
    // Version 19 first: the same compiler everywhere keeps the module's bytes the same.
    let names = ["clang-19".to_owned(), "clang".to_owned()]
        .into_iter()
        .chain((11..=30).rev().map(|version| format!("clang-{version}")));
    names
        .filter_map(|name| find(&name))
        .find(|cc| compiles_wasm(cc))
}

/// Finds, or installs, what compiles SQLite for wasm32.
pub fn c_tools() -> Result<CTools> {
    let given = |name: &str| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let cc = if let Some(cc) = given("CC_wasm32_unknown_unknown") {
        if !compiles_wasm(&cc) {
            bail!(
                "CC_wasm32_unknown_unknown names {}, which does not compile for {WASM}",
                cc.display()
            );
        }
        cc
    } else {
        found(
            find_clang,
            &["clang-19"],
            &format!("no clang that compiles for {WASM}"),
        )?
    };
    let ar = given("AR_wasm32_unknown_unknown")
        .or_else(|| find("llvm-ar"))
        .or_else(|| find("ar"))
        .context("no `llvm-ar` or `ar` on the path")?;
    Ok(CTools { cc, ar })
}

/// What is found, after an attempt to install it with apt-get if it is not there at once.
fn found<T>(look: impl Fn() -> Option<T>, packages: &[&str], why: &str) -> Result<T> {
    if let Some(found) = look() {
        return Ok(found);
    }
    let _turn = turn(&APT_GET);
    if let Some(found) = look() {
        return Ok(found);
    }
    apt_get(packages, why)?;
    look().with_context(|| {
        format!(
            "{} installed with apt-get, and still: {why}",
            packages.join(" ")
        )
    })
}

/// A browser and what drives it.
pub struct Driven {
    /// The browser.
    pub browser: PathBuf,
    /// Its WebDriver server.
    pub driver: PathBuf,
}

/// Makes sure that Chromium and its driver are there.
pub fn chromium() -> Result<Driven> {
    found(
        || {
            Some(Driven {
                browser: find("chromium")
                    .or_else(|| find("chromium-browser"))
                    .or_else(|| find("google-chrome"))?,
                driver: find("chromedriver")?,
            })
        },
        &["chromium", "chromium-driver"],
        "Chromium or its WebDriver is missing",
    )
}

/// Makes sure that Firefox and its driver are there.
pub fn firefox() -> Result<Driven> {
    Ok(Driven {
        browser: found(
            || find("firefox-esr").or_else(|| find("firefox")),
            &["firefox-esr"],
            "Firefox is missing",
        )?,
        driver: geckodriver()?,
    })
}

/// The driver of Firefox, which Debian does not have.
const GECKODRIVER: (&str, &str) = ("geckodriver", "0.37.1");

/// Puts faults into code and runs its tests.
const CARGO_MUTANTS: (&str, &str) = ("cargo-mutants", "27.0.0");

/// Makes sure that the driver of Firefox is there.
pub fn geckodriver() -> Result<PathBuf> {
    cargo_install(GECKODRIVER)
}

/// Makes sure that cargo-mutants is there.
pub fn cargo_mutants() -> Result<PathBuf> {
    cargo_install(CARGO_MUTANTS)
}

/// A program of the registry, from the path or built below `target/`.
fn cargo_install((name, version): (&str, &str)) -> Result<PathBuf> {
    let _turn = turn(&CARGO_INSTALL);
    if let Some(program) = find(name) {
        return Ok(program);
    }
    let place = target_dir().join(format!("{name}-{version}"));
    let program = place.join("bin").join(name);
    if !program.is_file() {
        say(format!(
            "installing {name} {version} below target/ with cargo; it takes some minutes"
        ));
        // Unoptimised: it waits for others most of the time, and builds in half the time.
        run(cargo()
            .args(["install", name, "--version", version])
            .args(["--locked", "--debug", "--quiet", "--root"])
            .arg(&place)
            .env("CARGO_PROFILE_DEV_DEBUG", "0"))?;
    }
    Ok(program)
}

/// Makes sure that WebKit's small browser and its driver are there.
pub fn webkit() -> Result<Driven> {
    found(
        || {
            Some(Driven {
                browser: mini_browser()?,
                driver: find("WebKitWebDriver")?,
            })
        },
        &["webkit2gtk-driver"],
        "WebKit's browser or its WebDriver is missing",
    )
}

/// No program for users, so it is not on the path but in the folder of its library.
fn mini_browser() -> Option<PathBuf> {
    let libraries = fs::read_dir("/usr/lib").ok()?.flatten();
    libraries
        .map(|entry| entry.path())
        .chain(["/usr/lib".into(), "/usr/libexec".into()])
        .flat_map(|dir| {
            ["webkit2gtk-4.1", "webkitgtk-6.0", "webkit2gtk-4.0"]
                .map(|library| dir.join(library).join("MiniBrowser"))
        })
        .find(|file| file.is_file())
}

/// Makes sure that there is an X server without a screen, for browsers that have no headless mode.
pub fn xvfb() -> Result<PathBuf> {
    found(|| find("Xvfb"), &["xvfb"], "Xvfb is missing")
}

/// Where cargo and this program put what they make.
pub fn target_dir() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// Makes sure that Node.js and npm are there.
pub fn node() -> Result<PathBuf> {
    found(
        || find("node").filter(|_| find("npm").is_some()),
        &["nodejs", "npm"],
        "Node.js or npm is missing",
    )
}

/// Installs the npm packages that `xtask/NAME` pins, and returns the folder with its `node_modules`.
pub fn npm_packages(name: &str) -> Result<PathBuf> {
    let _turn = turn(&NPM);
    let source = root().join("xtask").join(name);
    let dir = target_dir().join(name);
    let lock = fs::read(source.join("package-lock.json"))?;
    let installed = dir.join("installed.json");
    if fs::read(&installed).is_ok_and(|bytes| bytes == lock) {
        return Ok(dir);
    }
    say(format!(
        "installing what xtask/{name}/package.json names with npm"
    ));
    fs::create_dir_all(&dir)?;
    for file in ["package.json", "package-lock.json"] {
        fs::copy(source.join(file), dir.join(file))?;
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .arg("--silent")
        .current_dir(&dir);
    output(&mut npm)?;
    // Written last, so that an interrupted installation is not taken for a whole one.
    fs::write(&installed, &lock)?;
    Ok(dir)
}

/// Whether a program of that name is missing, for messages that name several.
pub fn missing<'a>(programs: &[&'a str]) -> Vec<&'a str> {
    programs
        .iter()
        .copied()
        .filter(|program| find(program).is_none())
        .collect()
}

/// A file name or path as text, for messages and arguments built by formatting.
pub fn text(path: impl AsRef<OsStr>) -> String {
    path.as_ref().to_string_lossy().into_owned()
}
