//! The engine as a WebAssembly module with its JavaScript bindings.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};
use wasm_bindgen_cli_support::Bindgen;

use crate::cut;
use crate::order;
use crate::tools::{self, CTools, WASM, say};

/// What makes the gzipped module small.
const WASM_OPT_FLAGS: &[&str] = &[
    // What the first round leaves, the second finds.
    "-Oz",
    "-Oz",
    // Inlining all that is called once makes the module smaller, but what is gzipped larger: 4 KB.
    "-ocimfs",
    "20",
    // It spends locals on what gzip would have found: 1 KB.
    "--skip-pass=local-cse",
    // The lowest bytes are the far end of the stack, which nobody addresses as an offset from a wrapped pointer.
    "--low-memory-unused",
    "--strip-debug",
    "--strip-producers",
];

/// What rustc's wasm32 target emits, all of it in every browser for years. `--all-features` would let the
/// optimiser use proposals that some browsers lack.
const WASM_OPT_FEATURES: &[&str] = &[
    "--enable-bulk-memory",
    "--enable-bulk-memory-opt",
    "--enable-call-indirect-overlong",
    "--enable-multivalue",
    "--enable-mutable-globals",
    "--enable-nontrapping-float-to-int",
    "--enable-reference-types",
    "--enable-sign-ext",
];

/// Sorts functions by the names that `order` gave them: 9 KB of the gzipped module.
const WASM_OPT_ORDER: &[&str] = &["--reorder-functions-by-name", "--strip-debug"];

/// The two files that the page's worker loads.
pub struct Engine {
    /// `engine.js`
    pub js: Vec<u8>,
    /// `engine_bg.wasm`
    pub wasm: Vec<u8>,
}

/// A cargo that can compile the package for wasm32.
pub fn cargo(c: &CTools) -> Result<Command> {
    let mut command = tools::cargo();
    command
        .env("CC_wasm32_unknown_unknown", &c.cc)
        // So that each function can be cut out by its name; wasm-opt inlines better for gzip, too.
        .env("CFLAGS_wasm32_unknown_unknown", "-fno-inline")
        .env("AR_wasm32_unknown_unknown", &c.ar)
        .env("CARGO_ENCODED_RUSTFLAGS", rustc_flags()?);
    Ok(command)
}

/// Flags for rustc, most of which keep the paths of this machine out of panic messages, and so out of the
/// module's bytes.
fn rustc_flags() -> Result<OsString> {
    // SHA-256 without unrolled rounds: 2 KB of the gzipped module.
    let mut flags = OsString::from("--cfg=sha2_backend_soft=\"compact\"");
    let mut map = |from: &Path, to: &str| {
        flags.push("\x1f--remap-path-prefix=");
        flags.push(from);
        flags.push(format!("={to}"));
    };
    map(&tools::root(), "/tool-retries");
    let cargo_home = env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")));
    if let Some(home) = cargo_home {
        map(&home, "/cargo");
        // The folders below are named after the registry in use, mirrors included.
        let mut sources: Vec<PathBuf> = fs::read_dir(home.join("registry/src"))
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        sources.sort();
        for source in sources {
            map(&source, "/crates");
        }
    }
    let sysroot = tools::output(
        Command::new("rustc")
            .args(["--print", "sysroot"])
            .current_dir(tools::root()),
    )?;
    map(Path::new(&sysroot), "/rust");
    Ok(flags)
}

/// Builds the module, or takes one that was built elsewhere, and makes its bindings.
pub fn engine(module: Option<&Path>) -> Result<Engine> {
    check_bindgen_version(&fs::read_to_string(tools::root().join("Cargo.lock"))?)?;
    let module = match module {
        Some(module) => module.to_path_buf(),
        None => {
            tools::ensure_wasm_target()?;
            compile(&tools::c_tools()?)?
        }
    };
    let module = cut::unreached(fs::read(&module).with_context(|| tools::text(&module))?)?;
    let engine = bind(module)?;
    let wasm = optimise(engine.wasm)?;
    Ok(Engine { wasm, ..engine })
}

/// Compiles the module, with a standard library built for size where its source can be had.
///
/// That library aborts without formatting a message, which takes 20 KB off the gzipped module. Building it is an
/// unstable feature of cargo, so a toolchain that refuses gets the library that comes with rustc.
fn compile(c: &CTools) -> Result<PathBuf> {
    if tools::ensure_std_source() {
        let flags = "\x1f-Zunstable-options\x1f-Cpanic=immediate-abort";
        let mut small = cargo(c)?;
        let mut rustflags = rustc_flags()?;
        rustflags.push(flags);
        small
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_ENCODED_RUSTFLAGS", rustflags)
            .env(LINKS, "1")
            .env(
                "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER",
                env::current_exe()?,
            )
            .args(BUILD)
            .arg("-Zbuild-std=std,panic_abort")
            .arg("-Zbuild-std-features=optimize_for_size")
            // Apart from what lint compiles with other flags, so that neither undoes the other.
            .args(["--target-dir", "target/small-std"]);
        match build(&mut small) {
            Ok(module) => return Ok(module),
            Err(error) => say(format!(
                "{error:#}; going on with the standard library that comes with rustc"
            )),
        }
    }
    build(cargo(c)?.args(BUILD))
}

/// In the environment of a build whose linker this program is.
pub const LINKS: &str = "TOOL_RETRIES_XTASK_LINKS";

/// Links like `rust-lld`, but exports none of the names by which Rust and SQLite's C find each other.
///
/// rustc exports every `no_mangle` function, and with it what nobody calls: sqlite-wasm-rs's own file system, clock and
/// random numbers, 9 KB of the gzipped module. It has no option against that.
pub fn link(args: impl Iterator<Item = OsString>) -> Result<()> {
    // rustc puts the folder of its own linker on the path.
    tools::run(Command::new("rust-lld").args(less_internal(args)))
}

fn less_internal(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let internal = |name: &str| {
        ["sqlite3", "rust_sqlite_wasm_", "tool_retries_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
            || ["gmtime", "strftime"].contains(&name)
    };
    let mut kept = Vec::new();
    let mut args = args.peekable();
    while let Some(arg) = args.next() {
        let exported = args.peek().and_then(|name| name.to_str());
        if arg == "--export" && exported.is_some_and(internal) {
            args.next();
        } else {
            kept.push(arg);
        }
    }
    kept
}

const BUILD: [&str; 10] = [
    "build",
    "--package",
    "tool-retries",
    "--lib",
    "--profile",
    "wasm",
    "--target",
    WASM,
    "--locked",
    "--message-format=json-render-diagnostics",
];

/// Runs a build of the module and tells where it is.
fn build(command: &mut Command) -> Result<PathBuf> {
    let started = Instant::now();
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(
        output.status.success(),
        "the build of the module failed ({})",
        output.status
    );
    let module = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| {
            message["reason"] == "compiler-artifact" && message["target"]["name"] == "tool_retries"
        })
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default())
        .filter_map(|name| name.as_str().map(PathBuf::from))
        .find(|path| {
            path.extension()
                .is_some_and(|extension| extension == "wasm")
        })
        .context("cargo built no .wasm file: is `cdylib` among the crate types?")?;
    say(format!(
        "built the module in {:.1} s",
        started.elapsed().as_secs_f64()
    ));
    Ok(module)
}

/// Fails unless the bindings are made by the version of wasm-bindgen that the module was built with.
fn check_bindgen_version(lock: &str) -> Result<()> {
    let module = locked_version(lock, "wasm-bindgen")?;
    let bindings = locked_version(lock, "wasm-bindgen-cli-support")?;
    ensure!(
        module == bindings,
        "Cargo.lock has wasm-bindgen {module} but wasm-bindgen-cli-support {bindings}: \
         write `wasm-bindgen-cli-support = \"={module}\"` in xtask/Cargo.toml"
    );
    Ok(())
}

fn locked_version<'a>(lock: &'a str, package: &str) -> Result<&'a str> {
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name);
    lines
        .nth(1)
        .and_then(|line| line.strip_prefix("version = \""))
        .and_then(|line| line.strip_suffix('"'))
        .with_context(|| format!("Cargo.lock has no {package}"))
}

fn bind(module: Vec<u8>) -> Result<Engine> {
    let dir = tempfile::tempdir()?;
    Bindgen::new()
        .input_bytes("engine", module)
        .out_name("engine")
        .web(true)?
        .typescript(false)
        .omit_default_module_path(false)
        .remove_name_section(true)
        .remove_producers_section(true)
        .generate(dir.path())
        .context("wasm-bindgen refused the module")?;
    let mut names: Vec<String> = fs::read_dir(dir.path())?
        .map(|entry| Ok(tools::text(entry?.file_name())))
        .collect::<Result<_>>()?;
    names.sort();
    // A dependency with inline JavaScript would add a `snippets` folder, which nobody has reviewed.
    ensure!(
        names == ["engine.js", "engine_bg.wasm"],
        "wasm-bindgen wrote {}, not just engine.js and engine_bg.wasm",
        names.join(", ")
    );
    Ok(Engine {
        js: fs::read(dir.path().join("engine.js"))?,
        wasm: fs::read(dir.path().join("engine_bg.wasm"))?,
    })
}

/// Makes the module smaller with wasm-opt; without Node or npm it stays as it is.
fn optimise(wasm: Vec<u8>) -> Result<Vec<u8>> {
    let Some(wasm_opt) = install_wasm_opt()? else {
        return Ok(wasm);
    };
    let cache = tools::target_dir().join("wasm-opt");
    fs::create_dir_all(&cache)?;
    // Half a minute for the same answer is too long when only the page has changed.
    let lock = fs::read(tools::root().join("xtask/binaryen/package-lock.json"))?;
    let mut hash = Sha256::new();
    for flags in [WASM_OPT_FEATURES, WASM_OPT_FLAGS, WASM_OPT_ORDER] {
        hash.update(flags.join(" "));
    }
    // Another way to order is another module.
    hash.update(include_str!("order.rs"));
    hash.update(&lock);
    hash.update(&wasm);
    let name: String = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let done = cache.join(format!("{name}.wasm"));
    if !done.is_file() {
        let started = Instant::now();
        let dir = tempfile::tempdir_in(&cache)?;
        let (before, after) = (
            dir.path().join("before.wasm"),
            dir.path().join("after.wasm"),
        );
        fs::write(&before, &wasm)?;
        let wasm_opt = |flags: &[&str], from: &Path, to: &Path| {
            let mut command = Command::new("node");
            command.arg(&wasm_opt).args(WASM_OPT_FEATURES).args(flags);
            tools::run(command.arg(from).arg("-o").arg(to))
        };
        wasm_opt(WASM_OPT_FLAGS, &before, &after)?;
        fs::write(&before, order::name_by_place(&fs::read(&after)?)?)?;
        wasm_opt(WASM_OPT_ORDER, &before, &after)?;
        fs::rename(&after, &done)?;
        say(format!(
            "wasm-opt took {:.1} s",
            started.elapsed().as_secs_f64()
        ));
    }
    let smaller = fs::read(&done)?;
    ensure!(
        smaller.starts_with(b"\0asm"),
        "{} is no WebAssembly module; delete it",
        done.display()
    );
    Ok(smaller)
}

fn install_wasm_opt() -> Result<Option<PathBuf>> {
    let missing = tools::missing(&["node", "npm"]);
    if !missing.is_empty() {
        say(format!(
            "no {}: the module is not optimised and will be larger",
            missing.join(" and no ")
        ));
        return Ok(None);
    }
    let dir = match tools::npm_packages("binaryen") {
        Ok(dir) => dir,
        Err(error) => {
            say(format!(
                "{error:#}: the module is not optimised and will be larger"
            ));
            return Ok(None);
        }
    };
    let wasm_opt = dir.join("node_modules/binaryen/bin/wasm-opt");
    ensure!(
        wasm_opt.is_file(),
        "npm installed no {}",
        wasm_opt.display()
    );
    Ok(Some(wasm_opt))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bindings_match_the_lock_file() {
        check_bindgen_version(include_str!("../../Cargo.lock")).unwrap();
    }

    #[test]
    fn only_internal_names_lose_their_export() {
        let less = |words: &str| {
            let args = words.split(' ').map(OsString::from);
            less_internal(args).join(" ".as_ref())
        };
        assert_eq!(
            less("-flavor wasm --export start --export sqlite3_os_init -o sqlite3 --export gmtime"),
            "-flavor wasm --export start -o sqlite3"
        );
        assert_eq!(less("--export"), "--export");
    }

    #[test]
    fn drift_is_named_with_its_cure() {
        let lock = "[[package]]\nname = \"wasm-bindgen\"\nversion = \"0.2.131\"\n\n\
                    [[package]]\nname = \"wasm-bindgen-cli-support\"\nversion = \"0.2.130\"\n";
        let message = check_bindgen_version(lock).unwrap_err().to_string();
        assert!(
            message.contains("0.2.131") && message.contains("xtask/Cargo.toml"),
            "{message}"
        );
        assert!(check_bindgen_version("").is_err());
    }
}
