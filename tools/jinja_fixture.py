#!/usr/bin/env python3
"""Writes fixtures/jinja.json: what Jinja2 makes of small templates, in the environment that transformers gives chat templates.

    python -m venv /tmp/jinja && /tmp/jinja/bin/pip install jinja2==3.1.6
    /tmp/jinja/bin/python tools/jinja_fixture.py > fixtures/jinja.json
"""

import json
import sys

import jinja2
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

MESSAGES = [
    {"role": "system", "content": " Be brief. "},
    {"role": "user", "content": "<Hi> & 'bye' \"now\"\nLine two"},
    {"role": "assistant", "content": "Héllo 漢字 a/b/c"},
    {"role": "user", "content": ""},
]

TEMPLATES = r"""
{% for m in messages %}[{{ m.role }}]{{ m['content'] | trim }}{% endfor %}
{{ messages[0].content }}|{{ messages[-1].role }}|{{ messages[1:] | length }}|{{ messages[:-1][-1].role }}|{{ messages[::-1][0].role }}|{{ messages[::2] | length }}
{%- for m in messages -%} {{ m.role }} {%- if not loop.last %}, {% endif -%} {%- endfor -%}
{% for m in messages %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.revindex0 }}/{{ loop.first }}/{{ loop.last }}/{{ loop.length }} {% endfor %}
{% for m in messages %}{{ loop.previtem.role if loop.previtem is defined else '-' }}>{{ loop.nextitem.role if loop.nextitem is defined else '-' }} {% endfor %}
{% for m in messages %}{{ loop.cycle('a', 'b', 'c') }}{% endfor %}
{% for m in messages if m.role == 'user' %}{{ loop.index }}{{ m.content }}{% else %}none{% endfor %}
{% for m in messages if m.role == 'tool' %}x{% else %}none{% endfor %}
{% for m in messages %}{% if loop.index == 3 %}{% break %}{% endif %}{% if m.role == 'system' %}{% continue %}{% endif %}{{ m.role }}{% endfor %}
{% set x = 1 %}{% for m in messages %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}
{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}
{% set ns = namespace(n=0, found=false) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% if m.role == 'user' %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.n }}{{ ns.found }}
{% set a, b = 'x', 'y' %}{{ a ~ b ~ 1 ~ none ~ true }}
{% set text %}  a {{ messages[0].role }}  {% endset %}[{{ text }}][{{ text | trim | upper }}]
{% set text | trim | upper %}  a b {% endset %}[{{ text }}]
{% macro greet(name, mark='!') %}Hi {{ name }}{{ mark }}{% endmacro %}{{ greet('A') }}{{ greet('B', '?') }}{{ greet(name='C', mark='.') }}{{ greet(mark='-') }}
{% macro down(n) %}{{ n }}{% if n > 0 %}{{ down(n - 1) }}{% endif %}{% endmacro %}{{ down(5) }}
{{ '<{}|{} {{}}>'.format('a', 1) }}|{{ 'plain'.format() }}|{{ '{}'.format(none) }}
{{ tools | selectattr('type', 'equalto', 'x') | list | length }}{{ none | map('upper') | list }}{{ false | reject('none') | list }}
{% set g = 'global' %}{% macro m() %}{{ g }}{% set g = 'own' %}{{ g }}{% endmacro %}{{ m() }}{{ g }}
{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}
{% raw %}{{ not a tag }} {% neither %}{% endraw %}
a{# comment #}b{#- strips -#} c
{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 7 / 2 }} {{ -3 + 1 }} {{ 2 * -3 }} {{ 1.5 + 1 }}
{{ 'a' * 3 }}{{ [1] * 2 }}{{ [1] + [2, 'x'] }}{{ 'a' + 'b' ~ 'c' + 'd' }}
{{ 1 < 2 <= 2 < 3 }} {{ 1 == 1.0 }} {{ 'a' < 'b' }} {{ not 1 > 2 }} {{ 1 != 2 and 2 != 2 or 3 }} {{ none or 'x' }} {{ 0 and 1 }} {{ [] or {} }}
{{ 'H' in messages[1].content }} {{ 'role' in messages[0] }} {{ 'x' not in messages[0] }} {{ 2 in [1, 2] }} {{ messages[0] in messages }}
{{ 'yes' if messages else 'no' }} {{ 'yes' if false }}| {{ 'a' if false else 'b' if false else 'c' }}
{{ messages is defined }} {{ nothing is defined }} {{ nothing is undefined }} {{ tools is none }} {{ not tools }} {{ messages is iterable }} {{ messages is mapping }} {{ messages[0] is mapping }} {{ 'a' is string }} {{ 1 is number }} {{ 1 is integer }} {{ 1.0 is float }} {{ true is boolean }} {{ messages is sequence }}
{{ 3 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 'a' is in ['a'] }} {{ 1 is eq 1 }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ none is not none }} {{ 1 is not defined or 2 }}
{{ nothing }}|{{ none }}|{{ true }}|{{ 1.0 }}|{{ 0.1 }}|{{ 'it''s' }}|{{ "a\nb\t\\ \x41é" }}
{{ ['a', 1, 2.5, none, true, ['b'], {'k': 'v'}] }}|{{ {'a': 1, 'b': [1]} }}|{{ ["it's", 'say "x"', 'n\nl'] }}
{{ ['a', 1, 2.5, none, true, ['b'], {'k': 'v', 'é': '漢"\n'}] | tojson }}|{{ [] | tojson }}|{{ {} | tojson }}
{{ {'a': [1, {'b': []}], 'c': {}} | tojson(indent=2) }}
{{ messages | tojson }}
{{ ' x ' | trim }}|{{ 'xxaxx' | trim('x') }}|{{ 'aB c' | upper }}|{{ 'AB' | lower }}|{{ 'hello world' | title }}|{{ 'hELLO' | capitalize }}|{{ 'abcabc' | replace('b', 'X') }}|{{ 'abcabc' | replace('b', 'X', 1) }}
{{ messages | map(attribute='role') | join(', ') }}|{{ ['a', 'b'] | map('upper') | list }}|{{ [1, 2] | join }}
{{ messages | selectattr('role', 'equalto', 'user') | list | length }}|{{ messages | rejectattr('role', 'eq', 'user') | map(attribute='role') | list }}|{{ [0, 1, none, 2] | select | list }}|{{ [1, 2, 3] | select('odd') | list }}|{{ [1, 2, 3] | reject('odd') | list }}
{{ messages | first | length }}|{{ (messages | last).role }}|{{ 'abc' | first }}|{{ 'abc' | last }}|{{ 'abc' | length }}|{{ [3, 1] | list }}|{{ 'abc' | list }}|{{ [1, 2] | reverse | list }}|{{ 'abc' | reverse }}
{{ nothing | default('d') }}|{{ none | default('d') }}|{{ none | default('d', true) }}|{{ '' | default('d', boolean=true) }}|{{ 0 | default(1) }}|{{ nothing | d('e') }}
{{ '3' | int + 1 }}|{{ 'x' | int }}|{{ 3.9 | int }}|{{ '2.5' | float }}|{{ -3 | abs }}|{{ 5 | string ~ 'x' }}
{% for k, v in {'b': 1, 'a': 2} | dictsort %}{{ k }}={{ v }};{% endfor %}|{% for k, v in {'b': 1, 'a': 2} | items %}{{ k }}={{ v }};{% endfor %}|{% for k, v in {'b': 1, 'a': 2}.items() %}{{ k }}={{ v }};{% endfor %}{% for k in {'b': 1} %}{{ k }}{% endfor %}
{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\nb' | indent(width=1, first=true) }}
{{ messages[2].content.split('/') }}|{{ 'a,b,c'.split(',', 1) }}|{{ ' a  b '.split() }}|{{ 'a,b,c'.rsplit(',', 1) }}|{{ 'a\nb'.splitlines() }}
{{ 'abc'.startswith('a') }}{{ 'abc'.endswith(('x', 'c')) }}|{{ ' a '.strip() }}|{{ 'xax'.lstrip('x') }}|{{ 'xax'.rstrip('x') }}|{{ 'a'.upper() }}{{ 'B'.lower() }}|{{ 'a-b'.replace('-', '+') }}|{{ 'abc'.find('c') }}{{ 'abc'.find('x') }}|{{ '-'.join(['a', 'b']) }}|{{ 'aXbX'.count('X') }}|{{ '12'.isdigit() }}|{{ 'héllo wörld'.title() }}|{{ 'abc'.removeprefix('a') }}
{{ messages[0].get('role') }}|{{ messages[0].get('x') }}|{{ messages[0].get('x', 'y') }}|{{ messages[0].keys() | list }}|{{ messages[0].values() | list | length }}
{{ 'abc'[1] }}{{ 'abc'[-1] }}|{{ 'abcdef'[1:4] }}|{{ 'abcdef'[::2] }}|{{ 'abcdef'[::-1] }}|{{ 'abcdef'[-2:] }}|{{ 'abcdef'[4:1:-1] }}|{{ [1, 2, 3][5:] }}
{{ range(3) | list }}|{{ range(1, 3) | list }}|{{ range(5, 0, -2) | list }}|{{ dict(a=1, b=2) }}
{{ 'a' 'b' }}|{{ ('a', 'b') | join }}|{{ (1) }}|{{ [1, 2,] }}|{{ {'a': {'b': 1}}['a']['b'] }}|{{ {'a': {'b': {'c': 2}}}.a.b.c }}
  {% if true %}  
x
  {% endif %}y
{% if true -%}   x   {%- endif %} y {%+ if true %} z {% endif +%}
{% generation %}inside{% endgeneration %}
{{ messages[1]['content'] | trim + '<end>' }}{{ bos_token + messages[0]['role'] }}{{ eos_token }}
{%- set loop_messages = messages[1:] if messages[0].role == 'system' else messages -%}{{ loop_messages | length }}
{{ (messages[0].content | trim).split(' ')[-1] }}{{ messages[0]['content'].strip().upper() }}
{% if messages[0]['role'] == 'system' and messages | length > 1 or false %}A{% elif messages %}B{% else %}C{% endif %}
{{ raise_exception('never') if false else 'fine' }}{{ -1 | abs }}{{ not none is defined }}
"""


class Generation(Extension):
    """transformers' tag for what the assistant says."""

    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(lineno)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)

    def raise_exception(message):
        raise jinja2.TemplateError(message)

    env.globals["raise_exception"] = raise_exception
    return env


def cases():
    lines = TEMPLATES.strip("\n").split("\n")
    # Two templates have several lines: white space around blocks.
    start = lines.index("  {% if true %}  ")
    lines[start : start + 3] = ["\n".join(lines[start : start + 3])]
    more = ["{% for m in messages %}\n  {{ m.role }}\n{% endfor %}\n", "a\r\n{% if true %}\r\nb\r\n{% endif %}\r\n", "x\n\n", "{#- c #}\n  {{ 1 }}\n{# d -#}\n  y"]
    more += ["a\n  {% raw %}\n  b\n  {% endraw %}\n c", "{% if true %}  {% if true %}  x{% endif %}{% endif %}"]
    return lines + more


def main():
    env = environment()
    variables = {"messages": MESSAGES, "tools": None, "documents": None, "bos_token": "<s>", "eos_token": "</s>"}
    done = [{"template": it, "rendered": env.from_string(it).render(add_generation_prompt=True, **variables)} for it in cases()]
    json.dump({"jinja2": jinja2.__version__, "messages": MESSAGES, "cases": done}, sys.stdout, ensure_ascii=False, indent=1)
    print()


main()
