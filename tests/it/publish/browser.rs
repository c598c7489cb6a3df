//! The pages in a browser: they fit the window of a phone and of a desktop, and follow the reader's
//! theme. `docs/screenshots/make.sh` makes pictures with the same browser.

use std::fmt::Write as _;

use super::Bench;
use crate::{judges::needs, support::prelude::*};

const PAGES: [&str; 4] = [
    "dist/index.html",
    "simple/index.html",
    "simple/rocm/index.html",
    "simple/rocm-sdk-core/index.html",
];

#[test]
#[ignore = "long"]
fn long_pages_fit_every_window_and_follow_the_theme() {
    needs!("chromium");
    for set in sets() {
        let bench = Bench::new();
        for page in PAGES {
            let directory = page.trim_end_matches("/index.html");
            let to = bench.root.join(directory);
            fs_err::create_dir_all(&to).unwrap();
            fs_err::copy(set.place().join(page), to.join("index.html")).unwrap();
        }
        let mut frames = String::new();
        for page in PAGES {
            for width in [320, 375, 1280] {
                let _ = write!(frames, "<iframe src='{page}' width={width} height=700></iframe>");
            }
        }
        let judge = "<p></p><script>onload = () => {
            for (const frame of document.querySelectorAll('iframe')) {
                const page = frame.contentDocument.documentElement;
                const fits = page.scrollWidth <= page.clientWidth;
                const color = getComputedStyle(frame.contentDocument.body).backgroundColor;
                const line = [frame.getAttribute('src'), frame.width, fits ? 'fits' : 'too wide', color];
                document.querySelector('p').textContent += line.join(' ') + ';';
            }
        }</script>";
        fs_err::write(bench.root.join("judge.html"), frames + judge).unwrap();
        let server = Server::start(Site::Directory(bench.root.clone()));
        for (scheme, color) in [("0", "rgb(20, 22, 26)"), ("1", "rgb(255, 255, 255)")] {
            let mut chromium = Command::new("chromium");
            chromium.args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]);
            chromium.arg("--virtual-time-budget=10000");
            chromium.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
            chromium.arg(format!("{}judge.html", server.url));
            let page = String::from_utf8(succeed(&mut chromium).stdout).unwrap();
            let said = page.split("<p>").nth(1).unwrap().split("</p>").next().unwrap();
            let lines: Vec<&str> = said.split_terminator(';').collect();
            assert_eq!(lines.len(), PAGES.len() * 3, "{said}");
            for line in lines {
                assert!(line.ends_with(&format!("fits {color}")), "{line}");
            }
        }
    }
}
