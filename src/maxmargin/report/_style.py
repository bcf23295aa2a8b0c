"""The style sheet of reports: one for light and dark, narrow and wide."""

from __future__ import annotations

# Twelve colours of labels; the text on them is the ink of the theme, with a contrast above 4.5.
_LIGHT_LABELS = (
    "#a9c8f5", "#f6c08f", "#a8dcb0", "#e6b0d6", "#f3d879", "#9fd8dc",
    "#f2aaa4", "#c5b8ef", "#cbd58b", "#d8c0a8", "#b8c4cf", "#f0b6c4",
)  # fmt: skip
_DARK_LABELS = (
    "#1d4f91", "#8a4b12", "#1f6b35", "#7b2f69", "#6e5608", "#14636a",
    "#8d2f2a", "#4f3f9a", "#535f14", "#654a30", "#465463", "#82304b",
)  # fmt: skip
N_COLOURS = len(_LIGHT_LABELS)


def _variables(labels: tuple[str, ...], **values: str) -> str:
    named = {f"c{k}": colour for k, colour in enumerate(labels)} | values
    return "".join(f"--{name.replace('_', '-')}:{value};" for name, value in named.items())


_LIGHT = _variables(
    _LIGHT_LABELS, page="#f5f6f8", card="#ffffff", ink="#1a2027", soft="#525c68", line="#dde2e8",
    accent="#1a5fb4", second="#b4540a", third="#5c6b7a", more="#8ab6f0", less="#f0a57a",
    good="#1c6b34", bad="#b3261e", good_back="#e3f3e7", bad_back="#fbe6e4", code="#f0f2f5",
    shadow="0 1px 2px rgb(20 30 45 / 8%), 0 4px 16px rgb(20 30 45 / 5%)", scheme="light",
)  # fmt: skip
_DARK = _variables(
    _DARK_LABELS, page="#11151a", card="#1a2027", ink="#e8edf2", soft="#a5b1bd", line="#323b46",
    accent="#7db4f5", second="#f0a05a", third="#9aa7b4", more="#215fa6", less="#9a4818",
    good="#7fd598", bad="#ff9a92", good_back="#173a23", bad_back="#4a1f1c", code="#232b34",
    shadow="none", scheme="dark",
)  # fmt: skip

_RULES = """
*{box-sizing:border-box}
html{color-scheme:var(--scheme);-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);
 font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main,body>header,body>footer{max-width:1240px;margin:0 auto;padding:0 20px}
body>header{padding-top:36px;padding-bottom:8px}
body>footer{padding-top:8px;padding-bottom:40px;color:var(--soft);font-size:14px}
h1{font-size:clamp(26px,4vw,38px);line-height:1.15;margin:0 0 8px;letter-spacing:-.02em}
h2{font-size:clamp(21px,2.6vw,27px);line-height:1.2;margin:0 0 4px;letter-spacing:-.01em}
h3{font-size:17px;line-height:1.3;margin:0 0 10px}
h4{font-size:14px;margin:0 0 6px;color:var(--soft);font-weight:600}
p{margin:0 0 12px;max-width:72ch}
a{color:var(--accent)}
.lead{font-size:17px;color:var(--soft);max-width:72ch}
.kicker{font-size:13px;font-weight:650;letter-spacing:.05em;text-transform:uppercase;
 color:var(--accent);margin:0 0 4px}
.model{margin:0 0 56px;scroll-margin-top:12px}
.model+.model{border-top:1px solid var(--line);padding-top:44px}
.cards{display:grid;grid-template-columns:repeat(12,minmax(0,1fr));gap:18px;margin-top:18px}
.card{grid-column:span 12;background:var(--card);border:1px solid var(--line);border-radius:12px;
 padding:18px 20px;box-shadow:var(--shadow);min-width:0}
@media(min-width:900px){.half{grid-column:span 6}.third{grid-column:span 4}
 .two-thirds{grid-column:span 8}}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;
 margin:20px 0 0;padding:0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:12px 16px;
 box-shadow:var(--shadow)}
.tile dt{font-size:13px;color:var(--soft)}
.tile dd{margin:2px 0 0;font-size:25px;font-weight:650;letter-spacing:-.01em;
 font-variant-numeric:tabular-nums}
.tile dd small{display:block;font-size:13px;font-weight:400;color:var(--soft);letter-spacing:0;
 line-height:1.35}
.scroll{overflow-x:auto;margin:0 -4px;padding:0 4px}
.scroll:focus-visible,a:focus-visible,summary:focus-visible{outline:3px solid var(--accent);
 outline-offset:2px;border-radius:4px}
table{border-collapse:collapse;font-size:14px;min-width:min(100%,300px);
 font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--soft);font-size:13px;padding:0 0 6px}
th,td{padding:6px 10px;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}
th:first-child,td:first-child{padding-left:2px}
thead th{font-size:13px;color:var(--soft);font-weight:600;vertical-align:bottom}
tbody th{font-weight:600;overflow-wrap:break-word;min-width:7.5em;max-width:26em}
td small,th small{display:block;font-size:13px;font-weight:400;color:var(--soft);max-width:22em}
td.n small{margin-left:auto;white-space:normal}
td.n{text-align:right;white-space:nowrap}
tbody tr:last-child>*{border-bottom:0}
.good{color:var(--good);font-weight:600}.bad{color:var(--bad);font-weight:600}
.soft{color:var(--soft)}.note{color:var(--soft);font-size:14px}
pre,code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;
 font-size:13px}
code{background:var(--code);border-radius:4px;padding:1px 4px;overflow-wrap:anywhere}
pre{background:var(--code);border-radius:8px;padding:12px 14px;overflow-x:auto;margin:0 0 12px;
 line-height:1.5}
details{margin-top:10px}summary{cursor:pointer;color:var(--accent);font-size:14px}
details>*+*{margin-top:8px}
dl.facts{display:grid;grid-template-columns:minmax(7em,max-content) 1fr;gap:4px 16px;
 margin:0 0 12px;font-size:15px}
dl.facts dt{color:var(--soft)}dl.facts dd{margin:0;overflow-wrap:anywhere}
.proof{border-left:4px solid var(--accent);padding-left:14px}
svg{display:block;max-width:100%;height:auto}
svg text{font-family:inherit;font-size:12px;fill:var(--soft)}
svg .ink{fill:var(--ink)}
svg .halo{paint-order:stroke;stroke:var(--card);stroke-width:6px;stroke-linejoin:round}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,260px),1fr));gap:18px}
figure{margin:0}figcaption{font-size:13px;color:var(--soft);margin-top:4px}
.axis{stroke:var(--line);stroke-width:1}.series{fill:none;stroke-width:2;stroke-linejoin:round}
.s0{stroke:var(--accent)}.s1{stroke:var(--second)}.s2{stroke:var(--third)}
.f0{fill:var(--accent)}.f1{fill:var(--second)}.f2{fill:var(--third)}
.dash{stroke-dasharray:5 4}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;font-size:13px;color:var(--soft);margin:0 0 8px;
 padding:0;list-style:none}
.legend i{display:inline-block;width:18px;height:0;border-top:3px solid;vertical-align:middle;
 margin-right:6px}
.legend i.s0{border-color:var(--accent)}.legend i.s1{border-color:var(--second);
 border-top-style:dashed}
.legend b.swatch{display:inline-block;width:14px;height:14px;border-radius:3px;
 vertical-align:-2px;margin-right:6px;border:1px solid var(--line)}
table.heat td{border:1px solid var(--card);text-align:center;padding:5px 7px;min-width:2.6em;
 background:color-mix(in oklab,var(--heat) var(--p),var(--card));font-size:13px}
table.heat td.more{--heat:var(--more)}table.heat td.less{--heat:var(--less)}
table.heat th{border:0;font-weight:500;white-space:nowrap;max-width:12em;overflow:hidden;
 text-overflow:ellipsis;min-width:0;padding:4px 7px}
table.heat thead th{text-align:center}table.heat tbody th{text-align:right}
table.heat td.true{outline:2px solid var(--good);outline-offset:-2px}
.chip{display:inline-block;border-radius:999px;padding:1px 9px;font-size:13px;line-height:1.5;
 background:var(--code);color:var(--ink);max-width:16em;overflow:hidden;text-overflow:ellipsis;
 white-space:nowrap;vertical-align:bottom}
.chip.miss{background:none;box-shadow:inset 0 0 0 2px var(--bad);text-decoration:line-through}
.chip.lack{background:none;box-shadow:inset 0 0 0 2px var(--bad)}
.chips{display:flex;flex-wrap:wrap;gap:5px}
.examples{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));
 gap:16px 32px}
.examples.wide{grid-template-columns:minmax(0,1fr)}
.example{border-top:1px solid var(--line);padding:12px 0 0;min-width:0}
.example>header{display:flex;flex-wrap:wrap;gap:4px 10px;align-items:baseline;font-size:14px;
 margin:0 0 8px;color:var(--soft)}
.verdict{font-weight:650;border-radius:6px;padding:0 7px}
.verdict.yes{background:var(--good-back);color:var(--good)}
.verdict.no{background:var(--bad-back);color:var(--bad)}
.words{display:flex;flex-wrap:wrap;gap:10px 6px}
.word{display:flex;flex-direction:column;align-items:center;gap:3px;padding:4px 5px;
 border-radius:8px;max-width:14em}
.word>b{font-weight:500;overflow-wrap:anywhere}
.word.off{background:var(--bad-back)}
.word small{font-size:12px;color:var(--ink)}
.pictures{display:flex;flex-wrap:wrap;gap:16px}
.pictures figure{flex:0 1 180px;min-width:90px}
.pictures svg{width:100%;border-radius:6px;border:1px solid var(--line)}
.sides{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,150px),1fr));gap:8px 24px;
 max-width:620px}
ol.ranking{margin:0;padding:0 0 0 1.6em;font-size:14px}ol.ranking li{padding:1px 0}
ol.ranking li.off>span{box-shadow:inset 0 0 0 2px var(--bad)}
.bars{display:grid;grid-template-columns:minmax(4em,max-content) minmax(60px,260px) max-content;
 gap:3px 10px;align-items:center;font-size:13px}
.bars i{display:block;height:10px;border-radius:3px;background:var(--accent);min-width:2px;
 width:var(--p)}
.bars i.other{background:var(--third)}
.row{display:flex;flex-wrap:wrap;gap:16px 40px;align-items:flex-start}
.row>*{min-width:0;max-width:100%}
.overview{margin:12px 0 44px}.overview table{width:100%}
thead th:not(.t){text-align:right}
.skip{position:absolute;left:-999px}.skip:focus{left:12px;top:12px;background:var(--card);
 padding:8px 12px}
@media(max-width:520px){main,body>header,body>footer{padding-left:14px;padding-right:14px}
 .card{padding:14px}dl.facts{grid-template-columns:1fr;gap:0}dl.facts dd{margin:0 0 8px}
 .tile dd{font-size:22px}th,td{padding:5px 7px}.tiles{grid-template-columns:1fr 1fr}}
@media print{body{background:#fff}.card,.tile{box-shadow:none;break-inside:avoid}
 details>*{display:block}}
"""


def style_sheet() -> str:
    """All rules; ``data-theme`` on the root element overrules what the reader's system prefers."""
    labels = "".join(
        f".c{k}{{background:var(--c{k})}}.k{k}{{fill:var(--c{k})}}" for k in range(N_COLOURS)
    )
    return (
        f":root{{{_LIGHT}}}"
        f'@media(prefers-color-scheme:dark){{:root:not([data-theme="light"]){{{_DARK}}}}}'
        f':root[data-theme="dark"]{{{_DARK}}}' + _RULES.strip() + labels
    )
