//! One scene: the service, its callers, and what becomes of them when it stalls.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::{
    feed::{CallerLine, CurlEnd, Micros, ServiceCounts, ServiceFeed},
    record::{Curls, Governor, Plan, Scene, Seconds, Span},
    stage::Stage,
    view::View,
};

/// The callers: the same script in both scenes.
const CALLERS: &str = include_str!("clients.sh");
const ADDRESS: &str = "127.0.0.1:8080";
/// How often the view is drawn and the plan is looked at.
const TICK: Duration = Duration::from_millis(100);
/// How long the last calls may take after the load has ended; four tries take five seconds.
const PATIENCE: Seconds = Seconds(15.0);
/// How long programs may take to start.
const STARTS_WITHIN: Seconds = Seconds(15.0);

/// What a scene needs.
#[derive(Debug)]
pub struct Cast<'a> {
    /// Where `storm-service`, `storm-client` and `retry-governor` are.
    pub programs: &'a Path,
    /// Where the governor writes its summary; `None`: a scene without it.
    pub governor: Option<&'a Path>,
    /// Set when the user wants to end it.
    pub stop: &'a AtomicBool,
}

/// What is heard from the stage.
enum Heard {
    Service(Result<ServiceCounts>),
    ServiceEnded,
    Callers(Result<CallerLine>),
    CallersEnded,
}

/// Plays a scene to its end.
pub fn play(plan: &Plan, cast: &Cast<'_>, view: &mut View) -> Result<Scene> {
    // Before the actors, so that it goes after them.
    let stage = Stage::set()?;
    let (tell, heard) = mpsc::channel();
    let mut service = Actor::service(&stage, plan, cast, tell.clone())?;
    let mut play = Play::new(plan, cast.stop, heard);
    play.until_the_service_is_up()?;
    let callers = Actor::callers(&stage, plan, cast, tell)?;
    while play.goes_on(&mut service)? {
        view.show(&play.scene, play.now()?)?;
    }
    view.end(&play.scene, plan.length())?;
    let said = callers.finish()?;
    eprint!("{said}");
    let mut scene = play.scene;
    scene.governor = cast.governor.map(governor).transpose()?;
    Ok(scene)
}

/// A scene while it is played.
struct Play<'a> {
    plan: &'a Plan,
    stop: &'a AtomicBool,
    heard: Receiver<Heard>,
    opened: Micros,
    /// The first try of the legacy client.
    start: Option<Micros>,
    /// What the service said before that.
    early: Vec<ServiceCounts>,
    act: Act,
    scene: Scene,
}

/// What happens now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Healthy,
    Stalled,
    Back,
    Ended,
}

impl<'a> Play<'a> {
    fn new(plan: &'a Plan, stop: &'a AtomicBool, heard: Receiver<Heard>) -> Self {
        let stall = Span {
            from: plan.healthy,
            to: plan.healthy + plan.stall,
        };
        Self {
            plan,
            stop,
            heard,
            opened: Micros(0),
            start: None,
            early: Vec::new(),
            act: Act::Healthy,
            scene: Scene {
                stall,
                samples: Vec::new(),
                tries: Vec::new(),
                curls: Curls::default(),
                governor: None,
            },
        }
    }

    /// Time in the scene.
    fn now(&self) -> Result<Seconds> {
        let now = Micros::now()?;
        Ok(self.start.map_or(Seconds(0.0), |start| now.since(start)))
    }

    fn until_the_service_is_up(&mut self) -> Result<()> {
        self.opened = Micros::now()?;
        while self.early.is_empty() {
            self.listen()?;
        }
        self.opened = Micros::now()?;
        Ok(())
    }

    /// Follows the plan for a tick; false at the end.
    fn goes_on(&mut self, service: &mut Actor) -> Result<bool> {
        self.listen()?;
        let now = self.now()?;
        match self.act {
            Act::Healthy if now >= self.plan.healthy => {
                service.order("stall")?;
                self.scene.stall.from = self.now()?;
                self.act = Act::Stalled;
            }
            Act::Stalled if now >= self.scene.stall.from + self.plan.stall => {
                service.order("serve")?;
                self.scene.stall.to = self.now()?;
                self.act = Act::Back;
            }
            _ if now >= self.plan.length() + PATIENCE => bail!("the callers do not end"),
            _ => {}
        }
        Ok(self.act != Act::Ended)
    }

    /// Hears what is said within a tick.
    fn listen(&mut self) -> Result<()> {
        let end = Micros(Micros::now()?.0 + TICK.as_micros() as u64);
        loop {
            let left = end.0.saturating_sub(Micros::now()?.0);
            match self.heard.recv_timeout(Duration::from_micros(left)) {
                Ok(heard) => self.hear(heard)?,
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => bail!("nobody is on the stage"),
            }
            if left == 0 {
                break;
            }
        }
        if self.stop.load(Ordering::Relaxed) {
            bail!("stopped");
        }
        if self.start.is_none() && Micros::now()?.since(self.opened) > STARTS_WITHIN {
            bail!("nothing is heard from the stage");
        }
        Ok(())
    }

    fn hear(&mut self, heard: Heard) -> Result<()> {
        match heard {
            Heard::Service(line) => match self.start {
                Some(start) => self.scene.samples.push(line?.sample(start)),
                None => self.early.push(line?),
            },
            Heard::ServiceEnded => bail!("the service ended"),
            Heard::Callers(line) => match line? {
                CallerLine::Try(each) => {
                    let start = *self.start.get_or_insert(each.t);
                    let early = self.early.drain(..).map(|line| line.sample(start));
                    self.scene.samples.extend(early);
                    self.scene.tries.push(each.placed(start));
                }
                CallerLine::Curl(CurlEnd::Good) => self.scene.curls.good += 1,
                CallerLine::Curl(CurlEnd::Failed) => self.scene.curls.failed += 1,
                CallerLine::Totals => {}
            },
            // A program that fails says so itself: see `Actor::finish`.
            Heard::CallersEnded => self.act = Act::Ended,
        }
        Ok(())
    }
}

/// A program on the stage. Dropping it ends it.
struct Actor {
    name: &'static str,
    child: Child,
    errors: Option<JoinHandle<String>>,
}

impl Actor {
    fn service(stage: &Stage, plan: &Plan, cast: &Cast<'_>, tell: Sender<Heard>) -> Result<Self> {
        let mut service = stage.program(cast.programs.join("storm-service"));
        service.args(["--listen", ADDRESS]);
        service.args(["--capacity", &plan.capacity.0.to_string()]);
        Self::start("storm-service", service, Stdio::inherit(), move |lines| {
            let mut feed = ServiceFeed::default();
            for line in lines {
                let line = line.and_then(|line| feed.hear(&line));
                // Nobody listens any more: the scene is over.
                if tell.send(Heard::Service(line)).is_err() {
                    return;
                }
            }
            let _ = tell.send(Heard::ServiceEnded);
        })
    }

    fn callers(stage: &Stage, plan: &Plan, cast: &Cast<'_>, tell: Sender<Heard>) -> Result<Self> {
        let mut callers = match cast.governor {
            None => stage.program("sh"),
            Some(summary) => {
                let mut exec = stage.program(cast.programs.join("retry-governor"));
                exec.args(["exec", "--json-summary"]).arg(summary);
                exec.args(["--", "sh"]);
                exec
            }
        };
        callers
            .args(["-c", CALLERS, "clients.sh"])
            .arg(cast.programs.join("storm-client"))
            .args([ADDRESS, &plan.offered.0.to_string()])
            .args([&format!("{}s", plan.length().0), &plan.curls.to_string()]);
        // The governor's summary comes on standard error: for later, not into the view.
        Self::start("the callers", callers, Stdio::piped(), move |lines| {
            for line in lines {
                let line = line.and_then(|line| CallerLine::parse(&line));
                if tell.send(Heard::Callers(line)).is_err() {
                    return;
                }
            }
            let _ = tell.send(Heard::CallersEnded);
        })
    }

    fn start(
        name: &'static str,
        mut command: Command,
        errors: Stdio,
        forward: impl FnOnce(&mut dyn Iterator<Item = Result<String>>) + Send + 'static,
    ) -> Result<Self> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            // Ctrl-C on the terminal is for this program: it ends them in order.
            .process_group(0);
        let mut child = command
            .spawn()
            .with_context(|| format!("{name} does not start"))?;
        let output = child.stdout.take().context("no output")?;
        thread::spawn(move || {
            let lines = BufReader::new(output).lines();
            forward(&mut lines.map(|line| line.context("a line can not be read")));
        });
        let errors = child.stderr.take().map(|mut errors| {
            thread::spawn(move || {
                let mut text = Vec::new();
                // What came before a broken pipe counts.
                let _ = errors.read_to_end(&mut text);
                String::from_utf8_lossy(&text).into_owned()
            })
        });
        Ok(Self {
            name,
            child,
            errors,
        })
    }

    fn order(&mut self, order: &str) -> Result<()> {
        let input = self.child.stdin.as_mut().context("no input")?;
        writeln!(input, "{order}").with_context(|| format!("{} takes no orders", self.name))
    }

    /// Waits for its end; what it said on standard error.
    fn finish(mut self) -> Result<String> {
        let status = self.child.wait()?;
        let errors = self.errors.take().and_then(|it| it.join().ok());
        let errors = errors.unwrap_or_default();
        if !status.success() {
            bail!("{} failed: {status}\n{}", self.name, errors.trim_end());
        }
        Ok(errors)
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        // Fails only where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is needed of `exec --json-summary`.
#[derive(Deserialize)]
struct Summary {
    destinations: Vec<Governor>,
}

fn governor(summary: &Path) -> Result<Governor> {
    let text = fs::read_to_string(summary)
        .with_context(|| format!("the governor's summary {}", summary.display()))?;
    let summary: Summary = serde_json::from_str(&text).context("the governor's summary")?;
    let [governor] = <[Governor; 1]>::try_from(summary.destinations)
        .map_err(|all| anyhow::anyhow!("{} destinations were called, not one", all.len()))?;
    Ok(governor)
}

/// Where a program of this build is.
pub fn programs() -> Result<PathBuf> {
    let own = std::env::current_exe().context("this program can not be found")?;
    Ok(own.parent().unwrap_or(&own).to_owned())
}
