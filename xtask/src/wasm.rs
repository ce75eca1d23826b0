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

use crate::tools::{self, CTools, WASM, say};

/// What makes the gzipped module small.
const WASM_OPT_FLAGS: &[&str] = &["-Oz", "--strip-debug", "--strip-producers"];

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
        .env("AR_wasm32_unknown_unknown", &c.ar)
        .env("CARGO_ENCODED_RUSTFLAGS", rustc_flags()?);
    Ok(command)
}

/// Flags for rustc that keep the paths of this machine out of panic messages, and so out of the module's bytes.
fn rustc_flags() -> Result<OsString> {
    let mut flags: Vec<OsString> = Vec::new();
    let mut map = |from: &Path, to: &str| {
        let mut flag = OsString::from("--remap-path-prefix=");
        flag.push(from);
        flag.push(format!("={to}"));
        flags.push(flag);
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
    Ok(flags.join("\x1f".as_ref()))
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
    let engine = bind(fs::read(&module).with_context(|| tools::text(&module))?)?;
    let wasm = optimise(engine.wasm)?;
    Ok(Engine { wasm, ..engine })
}

/// Compiles the module and tells where it is.
fn compile(c: &CTools) -> Result<PathBuf> {
    let started = Instant::now();
    let output = cargo(c)?
        .args(["build", "--package", "tool-retries", "--lib"])
        .args(["--profile", "wasm", "--target", WASM, "--locked"])
        .arg("--message-format=json-render-diagnostics")
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
    for flags in [WASM_OPT_FEATURES, WASM_OPT_FLAGS] {
        hash.update(flags.join(" "));
    }
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
        tools::run(
            Command::new("node")
                .arg(&wasm_opt)
                .args(WASM_OPT_FEATURES)
                .args(WASM_OPT_FLAGS)
                .arg(&before)
                .arg("-o")
                .arg(&after),
        )?;
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
