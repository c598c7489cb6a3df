//! The style sheet of the pages. They load no script, font or picture, and follow the reader's
//! light or dark theme.

/// Works on phones: long file names wrap, and on a narrow screen the size is shown below the name.
pub(super) const STYLE: &str = "\
:root{color-scheme:light dark;--line:#8883;--soft:#8881;--mute:#667085;--link:#b4232c}\
@media(prefers-color-scheme:dark){:root{--mute:#98a2b3;--link:#ff8f8a}}\
*{box-sizing:border-box}\
body{font:1rem/1.5 system-ui,sans-serif;margin:0 auto;max-width:64rem;padding:1.5rem 1rem 4rem}\
header{border-bottom:1px solid var(--line);margin-bottom:1.5rem;padding-bottom:1rem}\
h1{font-size:1.6rem;line-height:1.2;margin:0 0 .4rem;overflow-wrap:anywhere}\
h2{font-size:1rem;margin:1.5rem 0 .5rem;overflow-wrap:anywhere}\
p{margin:.2rem 0}\
pre,li a{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.875rem}\
pre{background:var(--soft);border-radius:.5rem;margin:.7rem 0 0;overflow-wrap:anywhere;padding:.7rem .9rem;white-space:pre-wrap}\
ul{border:1px solid var(--line);border-radius:.5rem;list-style:none;margin:0;padding:0}\
li{align-items:baseline;display:flex;flex-wrap:wrap;gap:.1rem 1rem;padding:.55rem .9rem}\
li+li{border-top:1px solid var(--line)}\
li a{color:var(--link);flex:1 1 18rem;overflow-wrap:anywhere;text-decoration:none}\
.short a{flex-basis:9rem}\
li a:hover,li a:focus{text-decoration:underline}\
li span{color:var(--mute);font-size:.875rem;font-variant-numeric:tabular-nums;white-space:nowrap}\
li em{background:#d9770622;border-radius:.3rem;color:#b45309;font-size:.8125rem;font-style:normal;padding:0 .4rem}\
@media(prefers-color-scheme:dark){li em{color:#fdba74}}";
